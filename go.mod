module github.com/kerfdev/kerf

go 1.27.0

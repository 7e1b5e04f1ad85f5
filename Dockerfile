# The two programs that run in a cluster: --target kerf-controller, --target kerf-node.
# Not built where it was written: no container builder was at hand.

FROM golang:1.27.3-bookworm AS build
WORKDIR /src
COPY . .
ENV GOFLAGS=-trimpath GOTOOLCHAIN=local
RUN cd cmd/kerf-controller && CGO_ENABLED=0 go build -ldflags='-s -w' -o /out/kerf-controller .
# The agent loads NVIDIA's library, which takes cgo.
RUN CGO_ENABLED=1 CGO_CFLAGS='-g -O2 -Wno-deprecated-declarations' go build -ldflags=-s -o /out/kerf-node ./cmd/kerf-node

FROM gcr.io/distroless/static-debian12:nonroot AS kerf-controller
COPY --from=build /out/kerf-controller /usr/bin/kerf-controller
ENTRYPOINT ["/usr/bin/kerf-controller"]

# glibc for the driver's library; root for the kubelet's folders.
FROM gcr.io/distroless/base-debian12 AS kerf-node
COPY --from=build /out/kerf-node /usr/bin/kerf-node
ENTRYPOINT ["/usr/bin/kerf-node"]

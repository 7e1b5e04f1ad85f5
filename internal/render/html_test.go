package render

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func page0(t *testing.T, r Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := HTML(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageNeedsNothingElse(t *testing.T) {
	text := page0(t, seed())
	for _, bad := range []string{"<script", "http://", "https://", "url(", "@import", "src=", "<link"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q in the page", bad)
		}
	}
}

func TestPageSaysWhatTheTableSays(t *testing.T) {
	root, err := html.Parse(strings.NewReader(page0(t, seed())))
	if err != nil {
		t.Fatal(err)
	}
	text := words(root)
	for _, want := range []string{
		"4 nodes to launch", "4 GPUs 31 slices, 26 in use", "0.756 $/h", "552 $/month of 730 hours", "26 of 28 pods placed, 2 not",
		"3 × g4dn.xlarge spot · us-east-1a|b|c · config shared_gpu 0.189 $/h each", "2 nodes alike", "test-gpu-shared ×10",
		"cpu 1.1/3.9 cores", "mem 0.2/14.1 GiB",
		"infra/provisioner-gpu-shared.tf:8,33", "ttlSecondsAfterEmpty is given twice",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

// words is the text of a page with single blanks.
func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "style" && d.Parent.Data != "title" {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestPageEscapesNames(t *testing.T) {
	r := seed()
	for i := range r.Snapshot.Pods {
		r.Snapshot.Pods[i].Owner = `Deployment x/<script>alert("1")</script>`
	}
	r.Notes[0].Text = "<b>&"
	text := page0(t, r)
	if strings.Contains(text, "<script") || strings.Contains(text, "<b>&") {
		t.Error("markup of the input reaches the page")
	}
}

func TestPageOfManyNodesStaysLight(t *testing.T) {
	if n := len(page0(t, crowd(2000))); n > 1_500_000 {
		t.Errorf("%d bytes", n)
	}
}

func TestEverySliceIsDrawn(t *testing.T) {
	text := page0(t, mixed())
	picture := text[strings.Index(text, "mig-1g.5gb 10/16"):]
	picture = picture[:strings.Index(picture, "</svg>")]
	if got := len(regexp.MustCompile(`<rect class="(w\d|free)"`).FindAllString(picture, -1)); got != 20 {
		t.Errorf("%d slices drawn, want 20", got)
	}
}

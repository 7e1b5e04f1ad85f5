package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/install"
	"github.com/kerfdev/kerf/internal/live"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/render"
	"github.com/kerfdev/kerf/internal/source"
)

type scanOptions struct {
	input
	exemptions
	output   string
	file     string
	failOn   string
	evidence string
	wide     bool
}

var scanOutputs = []string{"table", "json", "yaml", "sarif", "html"}

func (a *app) guardScanCommand() *cobra.Command {
	var o scanOptions
	c := &cobra.Command{
		Use:   "scan [-f PATH...]",
		Short: "who gets at GPUs past the device plugin, with place and fix",
		Long: `  kerf guard scan
  kerf guard scan -f apps/
  kerf guard scan -f apps/ -o sarif --output-file guard.sarif
  kerf guard scan -f cluster.yaml --evidence secure_accelerator_access.md

Looks at every container of every pod and pod template, at quotas, limit ranges
and resource claims, of the current cluster or of files. Secrets are not read.
The evidence is for the item secure_accelerator_access of
Kubernetes AI Conformance.
Exit code: 0 nothing as grave as --fail-on, 2 something is, 1 unusable input.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.guardScan(o) },
	}
	f := c.Flags()
	o.fileFlag(f)
	o.cluster.audit = true
	o.cluster.flags(f)
	f.StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table, json, yaml, sarif or html")
	f.StringVar(&o.file, "output-file", "", "`FILE` to write instead of standard output")
	f.StringVar(&o.failOn, "fail-on", "warning", "`SEVERITY` from which findings make the exit code 2: error, warning, info or never")
	f.StringVar(&o.evidence, "evidence", "", "`FILE` to write evidence for secure_accelerator_access to, as Markdown")
	f.BoolVar(&o.wide, "wide", false, "every place of every rule")
	o.flags(f)
	complete(c, "output", scanOutputs)
	complete(c, "fail-on", failing)
	return c
}

func (a *app) guardScan(o scanOptions) error {
	if err := oneOf("output", o.output, scanOutputs); err != nil {
		return err
	}
	if err := oneOf("fail-on", o.failOn, failing); err != nil {
		return err
	}
	ex, err := o.all()
	if err != nil {
		return err
	}
	p := a.newProgress("reading")
	defer p.done()
	objects, files, err := a.sources(o.input, p)
	if err != nil {
		return err
	}
	makeRoom(files)
	p.step("reviewing %d files and %d objects", len(files), len(objects.List))
	audit, err := scan(objects.Documents(), files, ex)
	if err != nil {
		return err
	}
	for _, n := range objects.Notes {
		if n.Code == live.NotAllowed {
			audit.Unread = append(audit.Unread, n)
		}
	}
	p.done()
	if fails(audit.Report, o.failOn) {
		a.code = exitFindings
	}
	if o.evidence != "" {
		if err := os.WriteFile(o.evidence, render.Evidence(audit), 0o644); err != nil {
			return fail("unwritable", "check the path given to --evidence", "%v", err)
		}
	}
	text, err := a.drawScan(o, audit)
	if err != nil {
		return err
	}
	return a.write(o.file, text)
}

// scan reviews what a cluster holds and what is in files.
func scan(running []manifest.Document, files []source.File, ex guard.Exemptions) (render.Audit, error) {
	docs, notes := source.ParseHeads(files)
	docs = append(running, docs...)
	var unread []model.Note
	for _, n := range notes {
		if n.Severity == model.Error {
			unread = append(unread, n)
		}
	}
	if len(docs) == 0 {
		if len(unread) > 0 {
			return render.Audit{}, failure{unread[0]}
		}
		return render.Audit{}, fail("nothing-found", "name files with workloads, quotas or claims", "the files hold no object that kerf can read")
	}
	inventory := guard.Read(docs)
	installed, _ := install.Read(docs, source.Nested)
	inventory.MaxRequest, inventory.Offered = install.Offers(installed.Sharing, inventory.Offered)
	return render.Audit{Report: guard.Scan(inventory, ex), Unread: unread, Enforced: guard.Sign(docs), Version: buildVersion()}, nil
}

func (a *app) drawScan(o scanOptions, audit render.Audit) ([]byte, error) {
	var b buffer
	switch o.output {
	case "table":
		return b.got(render.GuardTable(&b, audit, a.target(o.file, o.wide)))
	case "html":
		return b.got(render.GuardHTML(&b, audit))
	case "sarif":
		return encode("json", render.NewSARIF(audit))
	}
	return encode(o.output, render.GuardJSON(audit))
}

package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/install"
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
		Use:   "scan -f PATH...",
		Short: "who gets at GPUs past the device plugin, with file, line and fix",
		Long: `  kerf guard scan -f apps/
  kubectl get pods,deploy,ds,sts,jobs,cronjobs,ns,quota,limits -A -o yaml | kerf guard scan -f -
  kerf guard scan -f apps/ -o sarif --output-file guard.sarif
  kerf guard scan -f cluster.yaml --evidence secure_accelerator_access.md

Looks at every container of every pod and pod template, at quotas, limit ranges
and resource claims. The evidence is for the item secure_accelerator_access of
Kubernetes AI Conformance.
Exit code: 0 nothing as grave as --fail-on, 2 something is, 1 unusable input.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.guardScan(o) },
	}
	f := c.Flags()
	o.fileFlag(f)
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
	files, err := a.read(o.input)
	if err != nil {
		return err
	}
	makeRoom(files)
	p.step("reviewing %d files", len(files))
	audit, err := scan(files, ex)
	if err != nil {
		return err
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

// scan reads files and reviews what is in them.
func scan(files []source.File, ex guard.Exemptions) (render.Audit, error) {
	docs, notes := source.ParseHeads(files)
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
	inventory.MaxRequest, inventory.Offered = offers(installed.Sharing, inventory.Offered)
	return render.Audit{Report: guard.Scan(inventory, ex), Unread: unread, Enforced: guard.Sign(docs), Version: buildVersion()}, nil
}

// offers works out from device configs what one container is granted, and adds
// what they make of a GPU to what nodes have. Without nodes and configs, what is
// offered is not known (nil).
func offers(s model.Sharing, nodes map[string]bool) (most map[string]int64, offered map[string]bool) {
	if len(s.Configs) == 0 {
		return nil, nodes
	}
	offered = map[string]bool{model.NvidiaGPU: true, guard.AnySlice: len(nodes) == 0 || len(s.MIG) > 0}
	for name := range nodes {
		offered[name] = true
	}
	most = map[string]int64{}
	free := map[string]bool{} // what some config grants any number of
	for _, config := range s.Configs {
		got, err := gpu.Advertise([]model.GPU{{Manufacturer: "nvidia", Model: "a100", Count: 1, Fraction: 1}}, config, nil)
		if err != nil {
			continue
		}
		for name := range got.Resources {
			offered[name] = true
			if n, limited := got.MaxRequest[name]; limited {
				most[name] = max(most[name], n)
			} else {
				free[name] = true
			}
		}
	}
	for name := range free {
		delete(most, name)
	}
	if s.Default == "" && len(s.Configs) > 1 {
		delete(most, model.NvidiaGPU) // nodes without a label share nothing
	}
	return most, offered
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

package render

import (
	"net/url"
	"path/filepath"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// SARIF is a scan as code review takes it: the Static Analysis Results
// Interchange Format, version 2.1.0 (OASIS), as far as it is used.
type SARIF struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID      string    `json:"id"`
	Short   sarifText `json:"shortDescription"`
	Full    sarifText `json:"fullDescription"`
	Help    sarifText `json:"help"`
	Default struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
	Properties struct {
		Tags     []string `json:"tags"`
		Severity string   `json:"security-severity,omitempty"`
	} `json:"properties"`
}

type sarifResult struct {
	RuleID      string            `json:"ruleId"`
	RuleIndex   int               `json:"ruleIndex"`
	Level       string            `json:"level"`
	Message     sarifText         `json:"message"`
	Locations   []sarifLocation   `json:"locations"`
	Fingerprint map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine int `json:"startLine"`
		} `json:"region"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

// level is what SARIF calls a severity.
func level(s model.Severity) string {
	return map[model.Severity]string{model.Error: "error", model.Warning: "warning", model.Info: "note"}[s]
}

// NewSARIF puts a scan into that format. All rules are listed, so that those
// which are not broken count as checked.
func NewSARIF(a Audit) SARIF {
	run := sarifRun{ColumnKind: "utf16CodeUnits", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "kerf guard", Version: a.Version}
	index := map[string]int{}
	for i, r := range guard.Rules() {
		index[r.Name] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, newSARIFRule(r))
	}
	for _, f := range a.Findings {
		run.Results = append(run.Results, newSARIFResult(f, index[f.Rule]))
	}
	return SARIF{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

func newSARIFRule(r guard.Rule) sarifRule {
	out := sarifRule{ID: r.Name, Short: sarifText{r.Title}, Full: sarifText{r.Doc}, Help: sarifText{help(r)}}
	out.Default.Level = level(r.Severity)
	out.Properties.Tags = []string{"gpu", "kubernetes"}
	if r.Row > 0 {
		out.Properties.Tags = append(out.Properties.Tags, "security")
		// Code review ranks security findings by a figure as CVSS has it.
		out.Properties.Severity = map[model.Severity]string{model.Error: "8.0", model.Warning: "5.0", model.Info: "2.0"}[r.Severity]
	}
	return out
}

func help(r guard.Rule) string {
	text := r.Doc + "\n\nSource: " + r.Source
	if r.Fix != "" {
		text += "\nFix: " + r.Fix
	}
	return text
}

// uri is where a file is, from the folder that was scanned from.
func uri(file string) string {
	u := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}

func newSARIFResult(f guard.Finding, index int) sarifResult {
	text := f.Text
	if f.Fix != "" {
		text += ". Fix: " + f.Fix
	}
	out := sarifResult{
		RuleID: f.Rule, RuleIndex: index, Level: level(f.Severity), Message: sarifText{text},
		// Lines move; what is found in which object does not.
		Fingerprint: map[string]string{"kerfGuard/v1": f.Rule + " " + f.Place.Object + " " + f.Place.Field},
	}
	var at sarifLocation
	at.Physical.Artifact.URI = uri(f.Place.File)
	at.Physical.Region.StartLine = max(1, f.Place.Line)
	at.Logical = []sarifLogical{{f.Place.Object + " " + f.Place.Field, "object"}}
	out.Locations = []sarifLocation{at}
	return out
}

package policy

import (
	"bytes"
	"fmt"
	"strings"
)

// head starts every file that is written.
const head = `# Written by kerf guard policies. Needs Kubernetes %s.
# Try it first: kubectl apply --dry-run=server -f, then with validationActions [Warn] in the first binding.
`

// YAML writes validating policies with their bindings.
func YAML(list []Validating) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, "1.30 or later")
	for _, p := range list {
		p.write(&b)
	}
	return b.Bytes()
}

// line writes a line of YAML.
func line(b *bytes.Buffer, indent int, format string, args ...any) {
	b.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}

// expression writes CEL as a block, broken where that helps a reader.
func expression(b *bytes.Buffer, indent int, key, text string) {
	line(b, indent, "%s: |-", key)
	for part := range strings.SplitSeq(wrap(text), "\n") {
		line(b, indent+2, "%s", part)
	}
}

// wrap breaks an expression after && and || that stand outside of strings, where
// a line would be long.
func wrap(text string) string {
	const width = 120
	var b strings.Builder
	at, quoted := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\'' && (i == 0 || text[i-1] != '\\') {
			quoted = !quoted
		}
		b.WriteByte(c)
		at++
		if c == '\n' {
			at = 0
		}
		if !quoted && at > width && c == ' ' && i > 2 && (text[i-2:i] == "&&" || text[i-2:i] == "||") {
			b.WriteByte('\n')
			at = 0
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func constraints(b *bytes.Buffer, exempt []string, resources []Resource) {
	line(b, 2, "matchConstraints:")
	line(b, 4, "matchPolicy: Equivalent")
	if len(exempt) > 0 {
		line(b, 4, "namespaceSelector:")
		line(b, 6, "matchExpressions:")
		line(b, 6, "- {key: kubernetes.io/metadata.name, operator: NotIn, values: [%s]}", strings.Join(exempt, ", "))
	}
	line(b, 4, "resourceRules:")
	for _, r := range resources {
		line(b, 4, "- {apiGroups: [%q], apiVersions: [%q], resources: [%s], operations: [%s]}",
			r.Group, strings.Join(r.Versions, `", "`), strings.Join(r.Resources, ", "), strings.Join(r.Operations, ", "))
	}
}

func variables(b *bytes.Buffer, list []Variable) {
	line(b, 2, "variables:")
	for _, v := range list {
		line(b, 2, "- name: %s", v.Name)
		expression(b, 4, "expression", v.Expression)
	}
}

func header(b *bytes.Buffer, kind, name, what string) {
	line(b, 0, "---")
	if what != "" {
		line(b, 0, "# %s", what)
	}
	line(b, 0, "apiVersion: admissionregistration.k8s.io/v1")
	line(b, 0, "kind: %s", kind)
	line(b, 0, "metadata:")
	line(b, 2, "name: %s", name)
	line(b, 2, "labels: {app.kubernetes.io/name: kerf-guard}")
	line(b, 0, "spec:")
}

func (p Validating) write(b *bytes.Buffer) {
	header(b, "ValidatingAdmissionPolicy", p.Name, p.What)
	policy := "Fail"
	if p.Open {
		policy = "Ignore"
	}
	line(b, 2, "failurePolicy: %s", policy)
	constraints(b, p.Exempt, p.Resources)
	variables(b, p.Variables)
	line(b, 2, "validations:")
	for _, v := range p.Validations {
		line(b, 2, "# %s", v.Rule)
		line(b, 2, "- message: %q", v.Message)
		expression(b, 4, "expression", v.Expression)
	}
	header(b, "ValidatingAdmissionPolicyBinding", p.Name, "")
	line(b, 2, "policyName: %s", p.Name)
	line(b, 2, "validationActions: [%s]", p.Level.action())
}

// YAML writes the mutating policy with its binding.
func (m Mutating) YAML() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, "1.36 or later")
	header(&b, "MutatingAdmissionPolicy", m.Name, "Containers without a GPU are shown none, whatever their image says.")
	line(&b, 2, "failurePolicy: Ignore")
	line(&b, 2, "reinvocationPolicy: IfNeeded")
	constraints(&b, m.Exempt, m.Resources)
	variables(&b, m.Variables)
	line(&b, 2, "mutations:")
	line(&b, 2, "- patchType: JSONPatch")
	line(&b, 4, "jsonPatch:")
	expression(&b, 6, "expression", m.Expression)
	header(&b, "MutatingAdmissionPolicyBinding", m.Name, "")
	line(&b, 2, "policyName: %s", m.Name)
	return b.Bytes()
}

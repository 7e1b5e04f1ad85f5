package source

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// HCL's parser and evaluator recurse and have no bound of their own, so that a
// text of a few hundred kilobytes could exhaust the stack, which nothing can
// recover from. These bounds are far above what people write.
const (
	maxNesting   = 500     // brackets
	maxOperators = 5_000   // operators of one expression and those around it
	maxTerraform = 8 << 20 // bytes of one file
)

// tooDeep returns the line on which a text passes the bounds, 0 when it does
// not; lex is hclsyntax.LexConfig or LexTemplate.
func tooDeep(data []byte, lex func([]byte, string, hcl.Pos) (hclsyntax.Tokens, hcl.Diagnostics)) int {
	tokens, _ := lex(data, "", hcl.InitialPos)
	// A level is an open bracket and the operators of the expression in hand
	// directly inside it; the first is the text itself.
	type level struct {
		bracket   hclsyntax.TokenType
		operators int
	}
	levels := []level{{bracket: hclsyntax.TokenOBrace}}
	operators := 0 // of all levels: what the parser may have open at once
	for _, t := range tokens {
		now := &levels[len(levels)-1]
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			levels = append(levels, level{bracket: t.Type})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			operators -= now.operators
			now.operators = 0
			levels = levels[:max(1, len(levels)-1)]
		case hclsyntax.TokenComma, hclsyntax.TokenNewline:
			// Both end an expression, but for new lines in brackets and parentheses.
			if t.Type == hclsyntax.TokenComma || now.bracket == hclsyntax.TokenOBrace {
				operators -= now.operators
				now.operators = 0
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenQuestion, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
			hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
			now.operators++
			operators++
		}
		if len(levels) > maxNesting || operators > maxOperators {
			return t.Range.Start.Line
		}
	}
	return 0
}

package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A Price is one price of a user's price file. It replaces what the book says.
type Price struct {
	Region       string // "" = whatever region is planned
	Type         string
	CapacityType string  // spot, on-demand or reserved; "" = all, only with NotSold
	Zone         string  // "" = every zone of the region
	Price        float64 // $/h
	NotSold      bool    // it takes offerings away
	Line         int     // of the file
}

// ParsePrices reads a price file. A file that begins with { or [ is JSON,
// everything else CSV. Prices are dollars for an hour.
//
// CSV has the columns region,type,capacityType,zone,price, with or without that
// header. Empty region: whatever is planned; empty capacityType: on-demand, or
// every one where there is no price; empty zone: all; empty price or "-": not
// sold. Lines that begin with # are comments.
//
//	region,type,capacityType,zone,price
//	us-east-1,g4dn.xlarge,spot,us-east-1a,0.171
//	,g5.xlarge,on-demand,,0.85
//
// JSON is a map from type to a price on demand, or to prices by capacity type
// and zone, with or without a region around it; null is not sold:
//
//	{"us-east-1": {"g4dn.xlarge": {"on-demand": 0.5, "spot": {"us-east-1a": 0.171}}, "p3.2xlarge": null}}
//
// The answer of "aws ec2 describe-spot-price-history" is taken as it is; of one
// zone and type the newest price counts. An error names the line.
func ParsePrices(data []byte) ([]Price, error) {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	var out []Price
	var err error
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		out, err = jsonPrices(data)
	} else {
		out, err = csvPrices(string(data))
	}
	if err == nil && len(out) == 0 {
		err = errors.New("no prices found; expected CSV with the columns region,type,capacityType,zone,price, or JSON")
	}
	return out, err
}

const csvHeader = "region,type,capacityType,zone,price"

func csvPrices(text string) ([]Price, error) {
	var out []Price
	n := 0
	for l := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' || strings.EqualFold(strings.ReplaceAll(l, " ", ""), csvHeader) {
			continue
		}
		cells := strings.Split(l, ",")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), `"`)
		}
		if len(cells) != 5 {
			return nil, atLine(n, "%d columns in %q; expected the five of %s", len(cells), l, csvHeader)
		}
		p := Price{Region: cells[0], Type: cells[1], CapacityType: cells[2], Zone: cells[3], Line: n}
		if err := p.set(cells[4]); err != nil {
			return nil, atLine(n, "%w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// set completes a price by what was written for its amount and checks it.
func (p *Price) set(amount string) error {
	p.NotSold = amount == "" || amount == "-"
	if !p.NotSold {
		p.CapacityType = cmp.Or(p.CapacityType, model.OnDemand)
	}
	switch {
	case p.Type == "":
		return errors.New("the instance type is empty")
	case !isCapacityType(p.CapacityType) && p.CapacityType != "":
		return fmt.Errorf("capacity type %q of %s; expected on-demand, spot or reserved", p.CapacityType, p.Type)
	case p.NotSold:
		return nil
	}
	v, err := strconv.ParseFloat(strings.TrimPrefix(amount, "$"), 64)
	if err != nil || !(v >= 0 && v < math.MaxFloat32) {
		return fmt.Errorf("price %q of %s; expected dollars for an hour as a number of zero or more, or nothing where it is not sold", amount, p.Type)
	}
	p.Price = v
	return nil
}

func isCapacityType(s string) bool {
	return s == model.OnDemand || s == model.Spot || s == model.Reserved
}

// jsonPrices reads a map of prices or a spot price history.
func jsonPrices(data []byte) ([]Price, error) {
	r := priceReader{data: data, d: json.NewDecoder(bytes.NewReader(data))}
	r.d.UseNumber()
	var history struct{ SpotPriceHistory []spotPrice }
	if err := json.Unmarshal(data, &history); err == nil && history.SpotPriceHistory != nil {
		return spotHistory(history.SpotPriceHistory)
	}
	if err := r.value(nil); err != nil {
		return nil, err
	}
	if _, err := r.d.Token(); !errors.Is(err, io.EOF) {
		return nil, atLine(r.line(), "text after the end of the JSON")
	}
	return r.out, nil
}

// priceReader walks a map of prices: region, type, capacity type, zone.
type priceReader struct {
	data []byte
	d    *json.Decoder
	out  []Price
	seen int64 // offset up to which lines are counted
	n    int   // newlines up to there
}

func (r *priceReader) line() int {
	at := min(r.d.InputOffset(), int64(len(r.data)))
	r.n += bytes.Count(r.data[r.seen:at], []byte("\n"))
	r.seen = at
	return r.n + 1
}

// value reads what is under a path of keys.
func (r *priceReader) value(path []string) error {
	token, err := r.d.Token()
	if err != nil {
		return jsonError(r.data, 0, r.d.InputOffset(), err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' && len(path) < 4 {
			return r.members(path)
		}
		return atLine(r.line(), "%q under %q; expected a price", v.String(), strings.Join(path, " > "))
	case json.Number:
		return r.price(path, v.String())
	case string:
		return r.price(path, v)
	case nil:
		return r.price(path, "")
	}
	return atLine(r.line(), "%v under %q; expected a price", token, strings.Join(path, " > "))
}

func (r *priceReader) members(path []string) error {
	for r.d.More() {
		key, err := r.d.Token()
		if err != nil {
			return jsonError(r.data, 0, r.d.InputOffset(), err)
		}
		name, _ := key.(string)
		if err := r.value(append(slices.Clip(path), name)); err != nil {
			return err
		}
	}
	if _, err := r.d.Token(); err != nil {
		return jsonError(r.data, 0, r.d.InputOffset(), err)
	}
	return nil
}

// price adds the price under a path. The capacity type, where there is one,
// tells the other keys apart; a path without is a type, or a region and a type.
func (r *priceReader) price(path []string, amount string) error {
	n := r.line()
	p := Price{Line: n}
	i := slices.IndexFunc(path, isCapacityType)
	head := path
	if i >= 0 {
		p.CapacityType, head = path[i], path[:i]
		if len(path) > i+2 {
			return atLine(n, "%q; expected at most a zone under %s", strings.Join(path, " > "), path[i])
		}
		p.Zone = strings.Join(path[i+1:], "")
	}
	switch len(head) {
	case 1:
		p.Type = head[0]
	case 2:
		p.Region, p.Type = head[0], head[1]
	default:
		return atLine(n, "price %s under %q; expected a type, or a region and a type, then on-demand, spot or reserved, then a zone", amount, strings.Join(path, " > "))
	}
	if err := p.set(amount); err != nil {
		return atLine(n, "%w", err)
	}
	r.out = append(r.out, p)
	return nil
}

// spotPrice is one entry of EC2's DescribeSpotPriceHistory.
type spotPrice struct {
	AvailabilityZone, InstanceType, ProductDescription, SpotPrice, Timestamp string
}

// spotHistory keeps the newest Linux price of each zone and type.
func spotHistory(all []spotPrice) ([]Price, error) {
	newest := map[[2]string]int{}
	for i, s := range all {
		if s.ProductDescription != "" && !strings.HasPrefix(s.ProductDescription, "Linux/UNIX") {
			continue
		}
		key := [2]string{s.InstanceType, s.AvailabilityZone}
		if j, ok := newest[key]; !ok || all[j].Timestamp < s.Timestamp { // both are RFC 3339 in UTC
			newest[key] = i
		}
	}
	var out []Price
	for i, s := range all {
		if j, ok := newest[[2]string{s.InstanceType, s.AvailabilityZone}]; !ok || i != j {
			continue
		}
		p := Price{Type: s.InstanceType, CapacityType: model.Spot, Zone: s.AvailabilityZone}
		if err := p.set(s.SpotPrice); err != nil {
			return nil, fmt.Errorf("SpotPriceHistory[%d]: %w", i, err)
		}
		out = append(out, p)
	}
	return out, nil
}

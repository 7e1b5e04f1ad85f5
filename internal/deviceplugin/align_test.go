package deviceplugin

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The scores of go-gpuallocator.
const (
	crossCPU   = 10
	sameCPU    = 20
	hostBridge = 30
	oneSwitch  = 50
	nvlink     = 100
)

// A board is the links of a known machine, by positions of GPUs.
type board struct {
	n     int
	links map[[2]int]int
}

func (b board) add(score int, pairs ...[2]int) {
	for _, p := range pairs {
		slices.Sort(p[:])
		b.links[p] += score
	}
}

func (b board) names() (Links, []Device) {
	out := Links{}
	for p, s := range b.links {
		out[[2]string{strconv.Itoa(p[0]), strconv.Itoa(p[1])}] = s
	}
	var all []Device
	for i := range b.n {
		id := strconv.Itoa(i)
		all = append(all, Device{ID: id, UUID: id, GPU: id, Index: id})
	}
	return out, all
}

func rtx8000() board {
	b := board{4, map[[2]int]int{}}
	b.add(2*nvlink, [2]int{0, 3}, [2]int{1, 2})
	b.add(sameCPU, [2]int{0, 1}, [2]int{2, 3})
	b.add(crossCPU, [2]int{0, 2}, [2]int{1, 3}, [2]int{0, 3}, [2]int{1, 2})
	return b
}

// dgx1 is the part that both generations share: sockets and switches.
func dgx1(switches ...[2]int) board {
	b := board{8, map[[2]int]int{}}
	for i := range 8 {
		for j := range i {
			pair := [2]int{j, i}
			switch {
			case slices.Contains(switches, pair):
				b.add(oneSwitch, pair)
			case i/4 == j/4:
				b.add(hostBridge, pair)
			default:
				b.add(crossCPU, pair)
			}
		}
	}
	return b
}

func pascal() board {
	b := dgx1([2]int{0, 2}, [2]int{1, 3}, [2]int{4, 6}, [2]int{5, 7})
	for _, p := range [][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}} {
		b.add(nvlink, p, [2]int{p[0] + 4, p[1] + 4})
	}
	b.add(nvlink, [2]int{0, 4}, [2]int{1, 5}, [2]int{2, 6}, [2]int{3, 7})
	return b
}

func volta() board {
	b := dgx1([2]int{0, 1}, [2]int{2, 3}, [2]int{4, 5}, [2]int{6, 7})
	b.add(2*nvlink, [2]int{0, 3}, [2]int{1, 2}, [2]int{2, 3}, [2]int{0, 4}, [2]int{1, 5}, [2]int{4, 7}, [2]int{5, 6}, [2]int{6, 7})
	b.add(nvlink, [2]int{0, 1}, [2]int{0, 2}, [2]int{1, 3}, [2]int{4, 5}, [2]int{4, 6}, [2]int{5, 7}, [2]int{2, 6}, [2]int{3, 7})
	return b
}

func choose(all []Device, at ...int) []Device {
	var out []Device
	for _, i := range at {
		out = append(out, all[i])
	}
	return out
}

// The pairs of go-gpuallocator's tests on a DGX-1 with Volta.
func TestAlignOnDGX1(t *testing.T) {
	links, all := volta().names()
	everything := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, test := range map[string]struct {
		available, required []int
		size                int
		want                []string
	}{
		"two of four, across both sockets":       {[]int{0, 2, 4, 5}, nil, 2, []string{"4", "5"}},
		"two links rather than one":              {[]int{0, 4, 5, 6}, nil, 2, []string{"5", "6"}},
		"two of three":                           {[]int{0, 3, 1}, nil, 2, []string{"0", "3"}},
		"two of three, two links between CPUs":   {[]int{0, 1, 4}, nil, 2, []string{"0", "4"}},
		"one, and it is required":                {everything, []int{4}, 1, []string{"4"}},
		"the best partner of a required one":     {everything, []int{4}, 2, []string{"4", "7"}},
		"a socket around a required one":         {everything, []int{4}, 4, []string{"4", "5", "6", "7"}},
		"a required one that is not available":   {[]int{1, 2, 3, 4, 5, 6, 7}, []int{0, 1, 2, 3}, 4, nil},
		"exactly the required ones":              {everything, []int{0, 2, 4, 6}, 4, []string{"0", "2", "4", "6"}},
		"more required than wanted":              {everything, []int{1, 2, 3, 4, 5, 6}, 4, nil},
		"more required than wanted, one of them": {[]int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5, 6}, 1, nil},
		"none wanted":                            {everything, nil, 0, nil},
		"more wanted than there are":             {[]int{1, 2}, nil, 3, nil},
		"all that there are":                     {[]int{1, 6}, nil, 2, []string{"1", "6"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := align(choose(all, test.available...), choose(all, test.required...), test.size, links)
			if diff := cmp.Diff(test.want, ids(got), cmp.Transformer("empty", func(s []string) string { return fmt.Sprint(s) })); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

// The sequences of go-gpuallocator's tests: what is left fits the next request.
func TestAlignInSequence(t *testing.T) {
	for name, test := range map[string]struct {
		board board
		sizes []int
		want  []string
	}{
		"four RTX 8000, one by one":   {rtx8000(), []int{1, 1, 1, 1, 1}, []string{"[0]", "[1]", "[2]", "[3]", "[]"}},
		"four RTX 8000, in pairs":     {rtx8000(), []int{2, 2, 1}, []string{"[0 3]", "[1 2]", "[]"}},
		"four RTX 8000 at once":       {rtx8000(), []int{4, 1}, []string{"[0 1 2 3]", "[]"}},
		"Pascal in pairs":             {pascal(), []int{2, 2, 2, 2, 1}, []string{"[0 2]", "[1 3]", "[4 6]", "[5 7]", "[]"}},
		"Pascal by sockets":           {pascal(), []int{4, 4, 1}, []string{"[0 1 2 3]", "[4 5 6 7]", "[]"}},
		"Pascal at once":              {pascal(), []int{8, 1}, []string{"[0 1 2 3 4 5 6 7]", "[]"}},
		"Volta in pairs":              {volta(), []int{2, 2, 2, 2, 1}, []string{"[0 3]", "[1 2]", "[4 7]", "[5 6]", "[]"}},
		"Volta by sockets":            {volta(), []int{4, 4, 1}, []string{"[0 1 2 3]", "[4 5 6 7]", "[]"}},
		"Volta at once":               {volta(), []int{8, 1}, []string{"[0 1 2 3 4 5 6 7]", "[]"}},
		"a DGX-1, one by one":         {volta(), []int{1, 1, 1, 1, 1, 1, 1, 1}, []string{"[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]"}},
		"no links known: first first": {board{4, nil}, []int{2, 2}, []string{"[0 1]", "[2 3]"}},
	} {
		t.Run(name, func(t *testing.T) {
			links, free := test.board.names()
			var got []string
			for _, size := range test.sizes {
				set := align(free, nil, size, links)
				got = append(got, fmt.Sprint(ids(set)))
				free = minus(free, set)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("chosen in turn (-want +got):\n%s", diff)
			}
		})
	}
}

// divisions lists every way to part n GPUs into sets of a size, one of them
// smaller if need be: the dumb twin of the aligner.
func divisions(left []int, size int, yield func([][]int)) {
	var rec func(left []int, done [][]int)
	rec = func(left []int, done [][]int) {
		if len(left) == 0 {
			yield(done)
			return
		}
		for mask := range 1 << (len(left) - 1) {
			set, rest := []int{left[0]}, []int{}
			for i, g := range left[1:] {
				if mask&(1<<i) != 0 {
					set = append(set, g)
				} else {
					rest = append(rest, g)
				}
			}
			if len(set) == size || len(set) == len(left)%size {
				rec(rest, append(slices.Clone(done), set))
			}
		}
	}
	rec(left, nil)
}

func TestAlignFindsTheBestDivision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 7).Draw(t, "n")
		size := rapid.IntRange(2, n-1).Draw(t, "size")
		b := board{n, map[[2]int]int{}}
		for i := range n {
			for j := range i {
				b.add(rapid.SampledFrom([]int{10, 20, 50, 110, 230}).Draw(t, "score"), [2]int{j, i})
			}
		}
		must := rapid.IntRange(-1, n-1).Draw(t, "must")
		within := func(set []int) (sum int) {
			for i, x := range set {
				for _, y := range set[:i] {
					sum += b.links[[2]int{min(x, y), max(x, y)}]
				}
			}
			return sum
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		best, reachable := -1, map[string]bool{}
		divisions(all, size, func(sets [][]int) {
			total, top := 0, -1
			var picked []int
			for _, s := range sets {
				total += within(s)
				if len(s) == size && (must < 0 || slices.Contains(s, must)) && within(s) > top {
					picked, top = s, within(s)
				}
			}
			if picked == nil || total < best {
				return
			}
			if total > best {
				best = total
				clear(reachable)
			}
			slices.Sort(picked)
			reachable[fmt.Sprint(picked)] = true
		})
		links, devices := b.names()
		var required []Device
		if must >= 0 {
			required = devices[must : must+1]
		}
		got := fmt.Sprint(ids(align(devices, required, size, links)))
		if !reachable[got] {
			t.Fatalf("chose %s, the best divisions lead to %v", got, reachable)
		}
	})
}

func TestAlignOnMoreGPUsThanCanBeDivided(t *testing.T) {
	b := board{16, map[[2]int]int{}}
	for i := range 16 {
		for j := range i {
			b.add(crossCPU, [2]int{j, i})
		}
	}
	b.add(nvlink, [2]int{5, 11}, [2]int{5, 14}, [2]int{11, 14})
	links, all := b.names()
	if got := fmt.Sprint(ids(align(all, nil, 3, links))); got != "[5 11 14]" {
		t.Errorf("chose %s, the three that are linked are 5, 11, 14", got)
	}
	if got := len(align(all, choose(all, 0), 8, links)); got != 8 {
		t.Errorf("chose %d, wanted 8", got)
	}
}

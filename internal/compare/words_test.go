package compare

import "testing"

func TestSummarySaysWhatCompares(t *testing.T) {
	side := func(cost float64, placed int) Side { return Side{CostPerHour: cost, Placed: placed} }
	two := []GroupDoc{{Count: 2}}
	for want, d := range map[string]Document{
		"karpenter's plan costs what kerf's does for the same pods":                                  {Kerf: side(1, 3), Karpenter: side(1, 3)},
		"karpenter's plan costs 1.50 times as much as kerf's for the same pods":                      {Kerf: side(1, 3), Karpenter: side(1.5, 3)},
		"karpenter's plan costs 3.0 % more than kerf's for the same pods":                            {Kerf: side(1, 3), Karpenter: side(1.03, 3)},
		"karpenter's plan costs 0.6 % less than kerf's for the same pods":                            {Kerf: side(1, 3), Karpenter: side(0.994, 3)},
		"karpenter's plan costs 0.500 $/h more for the same pods":                                    {Kerf: side(0, 3), Karpenter: side(0.5, 3)},
		"the plans are not for the same pods: kerf alone places 2 pods; their prices do not compare": {Kerf: side(1, 3), Karpenter: side(1, 1), OnlyKerf: two},
		"the plans are not for the same pods: kerf alone places 2 pods, karpenter alone places 2 pods; their prices do not compare": {
			Kerf: side(1, 3), Karpenter: side(1, 3), OnlyKerf: two, OnlyKarpenter: two,
		},
	} {
		if got := d.summary(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestKarpentersWordsAreShortened(t *testing.T) {
	for said, want := range map[string]string{
		"did not tolerate taint (taint=a:NoSchedule)": "did not tolerate taint (taint=a:NoSchedule)",
		`no instance type has enough resources, requirements=karpenter.k8s.aws/ec2nodeclass In [default], karpenter.sh/initialized In [true], karpenter.sh/nodepool In [gpu], karpenter.sh/registered In [true], node.kubernetes.io/instance-type In [g4dn.xlarge, g5.xlarge], resources={"cpu":"100","nvidia.com/gpu":"3","pods":"1"}`: "gpu: no instance type has enough resources for cpu 100, nvidia.com/gpu 3 where node.kubernetes.io/instance-type In [g4dn.xlarge, g5.xlarge]",
		"no instance type has enough resources, requirements=a Exists, resources=what": "no instance type has enough resources where a Exists",
	} {
		if got := plainly(said); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

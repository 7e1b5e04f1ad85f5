package health

import "strconv"

// A Class is what an Xid means for the GPU that reports it.
type Class uint8

// The classes, from the lightest to the gravest.
const (
	// Ignored Xids are an application's mistake, or only told.
	Ignored Class = iota
	// Transient ones cost an application its work: the GPU is not given to new
	// pods until it has answered a few probes in a row. An Xid that nobody knows
	// is of this class.
	Transient
	// Reset ones leave the GPU unusable until it was reset.
	Reset
	// Fatal ones leave it unusable until the machine was booted anew, if not
	// for good.
	Fatal
)

// String is the name by which a policy speaks of the class.
func (c Class) String() string { return [...]string{"ignore", "transient", "reset", "fatal"}[c] }

// An xid is one row of the table.
type xid struct {
	class   Class
	meaning string
}

// xids is NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors, release
// R580) by its column "Resolution Bucket (Immediate Action)":
//
//   - IGNORE, XID_154 and the notices on power smoothing (162-165) are Ignored;
//   - RESTART_APP, UPDATE_SWFW, CHECK_UVM and CONTACT_SUPPORT (142) are Transient;
//   - RESET_GPU, WORKFLOW_XID_48, WORKFLOW_NVLINK_ERR, WORKFLOW_NVLINK5_ERR,
//     CHECK_MECHANICALS and RESTART_VM are Reset;
//   - RESTART_BM is Fatal.
//
// It differs from the catalog in these:
//
//   - 13, 31, 43, 45, 68 and 109 are Ignored whatever their bucket, as NVIDIA's
//     device plugin v0.20.0 has them by default; DP_ENABLE_HEALTHCHECKS brings
//     the class that is given here back;
//   - 64 is Fatal, not RESET_GPU: no spare rows are left after a reset either,
//     and Karpenter's AWS provider replaces the node;
//   - 167, 169, 171 and 172 have no bucket; they are Reset, the last two since
//     they come with Xid 48.
var xids = map[uint64]xid{
	8:  {Transient, "GPU stopped processing"},
	11: {Transient, "invalid or corrupted push buffer stream"},
	13: {Transient, "graphics engine exception"},
	25: {Transient, "invalid or illegal push buffer stream"},
	31: {Transient, "GPU memory page fault"},
	32: {Transient, "invalid or corrupted push buffer stream"},
	37: {Ignored, "driver firmware error"},
	38: {Ignored, "driver firmware error"},
	39: {Transient, "copy engine exception"},
	40: {Transient, "copy engine exception"},
	41: {Transient, "copy engine exception"},
	43: {Transient, "GPU stopped processing after a fault of the application"},
	44: {Ignored, "graphics engine fault during context switch"},
	45: {Transient, "preemptive cleanup after earlier errors"},
	46: {Reset, "GPU stopped processing"},
	48: {Reset, "double bit ECC error"},
	54: {Reset, "auxiliary power is not connected"},
	60: {Transient, "video processor exception"},
	62: {Reset, "internal micro-controller halt"},
	63: {Ignored, "GPU memory remapping event"},
	64: {Fatal, "GPU memory remapping failure"},
	66: {Ignored, "illegal access by the driver"},
	67: {Ignored, "illegal access by the driver"},
	68: {Transient, "video decoder exception"},
	69: {Transient, "graphics engine class error"},
	70: {Transient, "copy engine error"},
	71: {Transient, "copy engine error"},
	72: {Transient, "copy engine error"},
	74: {Reset, "NVLink error"},
	75: {Transient, "copy engine error"},
	76: {Transient, "copy engine error"},
	77: {Transient, "copy engine error"},
	78: {Transient, "vGPU start error"},
	79: {Fatal, "GPU has fallen off the bus"},
	80: {Transient, "corrupted data sent to the GPU"},
	82: {Transient, "JPEG engine error"},
	83: {Transient, "video decoder error"},
	84: {Transient, "video decoder error"},
	85: {Transient, "copy engine error"},
	86: {Transient, "optical flow engine exception"},
	88: {Transient, "video decoder error"},
	89: {Transient, "video decoder error"},
	92: {Ignored, "high rate of single bit ECC errors"},
	93: {Ignored, "InfoROM wear limit exceeded"},
	94: {Transient, "contained memory error"},
	95: {Reset, "uncontained memory error"},

	106: {Ignored, "test message"},
	107: {Ignored, "test message"},
	108: {Ignored, "NVLink remote translation error"},
	109: {Reset, "context switch timeout"},
	110: {Reset, "security fault"},
	119: {Reset, "GSP RPC timeout"},
	120: {Reset, "GSP error"},
	121: {Ignored, "corrected errors on the link to the CPU"},
	136: {Reset, "link training failed"},
	137: {Ignored, "NVLink privilege error"},
	139: {Transient, "optical flow engine error"},
	140: {Reset, "unrecovered ECC error"},
	141: {Ignored, "CUDA fast path error"},
	142: {Transient, "video encoder error"},
	143: {Reset, "GPU initialisation error"},
	144: {Reset, "NVLink error (SAW)"},
	145: {Reset, "NVLink error (RLW)"},
	146: {Reset, "NVLink error (TLW)"},
	147: {Reset, "NVLink error (TREX)"},
	148: {Reset, "NVLink error (NVLPW_CTRL)"},
	149: {Reset, "NVLink error (NETIR)"},
	150: {Reset, "NVLink error (MSE)"},
	151: {Reset, "key rotation error"},
	152: {Ignored, "DLA SMMU error"},
	153: {Ignored, "DLA timeout"},
	154: {Ignored, "GPU recovery action changed"},
	155: {Reset, "NVLink error (software defined)"},
	156: {Reset, "resource retirement"},
	157: {Ignored, "resource retirement failure"},
	158: {Reset, "GPU fatal timeout"},
	159: {Transient, "CHI non-data error"},
	160: {Ignored, "channel retirement"},
	161: {Ignored, "channel retirement failure"},
	162: {Ignored, "power smoothing engaged again"},
	163: {Ignored, "power smoothing disengaged"},
	164: {Ignored, "power smoothing near its end of life"},
	165: {Ignored, "power smoothing at its end of life"},
	167: {Reset, "PCIe fatal timeout"},
	169: {Reset, "internal micro-controller halt"},
	171: {Reset, "uncorrectable DRAM error"},
	172: {Reset, "uncorrectable SRAM error"},
}

// ignoredByPlugin are the Xids that NVIDIA's device plugin v0.20.0 takes for
// errors of applications.
var ignoredByPlugin = []uint64{13, 31, 43, 45, 68, 109}

// replaced are the Xids on which Karpenter's AWS provider v1.15.0 replaces the
// node rather than reboot it.
var replaced = map[uint64]bool{64: true, 74: true, 79: true, 119: true, 120: true}

// name writes an Xid with its meaning.
func name(n uint64) string {
	text := "Xid " + strconv.FormatUint(n, 10)
	row, ok := xids[n]
	switch {
	case ok:
		return text + " (" + row.meaning + ")"
	case n >= 96 && n <= 105:
		return text + " (video or JPEG engine error)"
	case n >= 126 && n <= 135:
		return text + " (copy engine error)"
	}
	return text
}

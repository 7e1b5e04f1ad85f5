//go:build !prebuilt

package plane

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // owns the variable below
	_ "unsafe"                                              // for go:linkname
)

// etcdClientLogger is the API server's logger of its etcd clients. It is made
// before main on standard error, where a stop would leave a line about the
// request that it ended, and nothing else can set it.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

// captureEtcdClientLog sends that to where klog writes.
func captureEtcdClientLog() {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	etcdClientLogger = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(kubernetesLog), zap.WarnLevel)).Named("etcd-client")
}

package world

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kerfdev/kerf/internal/nodepool"
)

// NodeClassCRD is that of EC2NodeClass with the AWS provider's schema, so that
// the manifests which people have are taken as they are. A plane needs it before
// a world starts on it.
func NodeClassCRD() (*apiextensionsv1.CustomResourceDefinition, error) {
	schema, err := nodepool.ClassSchema()
	if err != nil {
		return nil, fmt.Errorf("make the CRD of EC2NodeClass: %w", err)
	}
	anything := true
	if _, has := schema.Properties["status"]; !has {
		schema.Properties["status"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
	}
	schema.Type = "object"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "ec2nodeclasses.karpenter.k8s.aws"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "karpenter.k8s.aws", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "ec2nodeclasses", Singular: "ec2nodeclass", Kind: "EC2NodeClass", ListKind: "EC2NodeClassList",
				ShortNames: []string{"ec2nc", "ec2ncs"}, Categories: []string{"karpenter"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}, nil
}

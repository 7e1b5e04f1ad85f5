// Package live reads a running cluster: the objects that a decision needs, as
// the documents that files give, so that whatever can be done with files can be
// done with a cluster.
//
// A document of a cluster has no lines. Its File is the object's own title,
// "NodePool gpu" or "Deployment team-a/web", which messages show where they
// would show a file and a line.
//
// Objects are cut down to what Kerf reads before anything else sees them (see
// [Keep]). Command lines, user data, annotations of other programs and values of
// environment variables, but for those that say which GPUs a container sees, are
// left out, and Secrets are never asked for: what Read returns can be written to
// a file and sent to somebody, which is what [WriteSnapshot] is for. A plan made
// from such a file is the plan made from the cluster.
package live

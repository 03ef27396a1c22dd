package rls

import (
	"fmt"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata returns the request as dynamic metadata, for Envoy's log, with what
// the rules that passed carry. Where two carry the same key the later wins.
func (c *call) metadata(q *rlsv3.RateLimitRequest, statuses []rlsv3.RateLimitResponse_DescriptorStatus) *structpb.Struct {
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(q.GetDomain())}
	descriptors := make([]*structpb.Value, len(q.GetDescriptors()))
	carried := map[string]*structpb.Value{}
	for i, d := range q.GetDescriptors() {
		entries := make([]*structpb.Value, len(d.GetEntries()))
		for j, e := range d.GetEntries() {
			entries[j] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
		}
		one := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
		if l := d.GetLimit(); l != nil {
			one["limit"] = structpb.NewStringValue(fmt.Sprintf("requests_per_unit:%d unit:%s", l.GetRequestsPerUnit(), l.GetUnit()))
		}
		if h := d.GetHitsAddend(); h != nil {
			one["hitsAddend"] = structpb.NewNumberValue(float64(h.GetValue()))
		}
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: one})
		if rule := c.asked[i].rule; rule != nil && statuses[i].Code == ok {
			for name, value := range rule.Metadata.GetFields() {
				carried[name] = value
			}
		}
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: descriptors})
	if n := q.GetHitsAddend(); n > 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	if len(carried) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: carried})
	}
	return &structpb.Struct{Fields: fields}
}

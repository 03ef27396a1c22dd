package grpclimit

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// Pushback is the trailer that tells a client when it may retry, in milliseconds,
// or with -1 that it should not.
const Pushback = "grpc-retry-pushback-ms"

// trailerOf returns the fields of an answer as metadata, but for those of HTTP
// that mean nothing here.
func trailerOf(a *headers.Answer) metadata.MD {
	md := metadata.MD{}
	for name, value := range a.Fields() {
		switch name = strings.ToLower(name); name {
		case "retry-after", "cache-control":
		default:
			md[name] = []string{value}
		}
	}
	return md
}

// refuse returns what a denied call ends with.
func refuse(a *headers.Answer, b *weir.Bill, shows []headers.Show) (metadata.MD, error) {
	code, problem := codes.ResourceExhausted, "too many calls"
	switch {
	case b.Reason == weir.FailedClosed:
		code, problem = codes.Unavailable, "quotas cannot be checked at present"
	case b.Reason == weir.TooLarge:
		problem = "the call costs more than its quota can ever hold"
	case a.Meant() == http.StatusForbidden:
		code, problem = codes.PermissionDenied, "the caller is refused"
	}
	trailer := trailerOf(a)
	trailer[Pushback] = []string{"-1"}
	if a.Wait > 0 {
		problem += "; try again in " + a.Wait.String()
		trailer[Pushback] = []string{strconv.FormatInt(headers.Milliseconds(a.Wait), 10)}
	}
	s := status.New(code, problem)
	var details []protoadapt.MessageV1
	if a.Wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(a.Wait)})
	}
	if failure := quotaFailure(b, shows); code == codes.ResourceExhausted && failure != nil {
		details = append(details, failure)
	}
	if len(details) > 0 {
		if with, err := s.WithDetails(details...); err == nil { // the one error is a status that is OK
			s = with
		}
	}
	return trailer, s.Err()
}

// quotaFailure names the limits that refused and may be shown. It names no key.
func quotaFailure(b *weir.Bill, shows []headers.Show) *errdetails.QuotaFailure {
	f := &errdetails.QuotaFailure{}
	for i := range b.Each {
		c := &b.Charges[i]
		if b.Each[i].Allowed || c.Trial != 0 {
			continue
		}
		name := c.Limit.Name()
		if i < len(shows) {
			if shows[i].Hidden {
				continue
			}
			if shows[i].Name != "" {
				name = shows[i].Name
			}
		}
		if name == "" {
			name = "default"
		}
		f.Violations = append(f.Violations, &errdetails.QuotaFailure_Violation{
			Subject:     "limit:" + name,
			Description: "at most " + strconv.FormatInt(c.Limit.Units(), 10) + " per " + c.Limit.PeriodName(),
			QuotaId:     name,
			QuotaValue:  c.Limit.Units(),
		})
	}
	if len(f.GetViolations()) == 0 {
		return nil
	}
	return f
}

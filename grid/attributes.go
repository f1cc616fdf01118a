package grid

import "maps"

// Limits of the attributes of a member.
const (
	MaxAttributes     = 64
	MaxAttributeBytes = 255 // of a name, and of a value
)

// SetAttributes replaces the attributes of a member. They last as long as the member does.
type SetAttributes struct {
	ID         MemberID
	Attributes map[string]string
}

func (c *SetAttributes) apply(s *State) error {
	m, ok := s.Member(c.ID)
	if !ok {
		return rejectf("no member %s", c.ID)
	}
	if len(c.Attributes) > MaxAttributes {
		return rejectf("%d attributes are more than %d", len(c.Attributes), MaxAttributes)
	}
	for k, v := range c.Attributes {
		if k == "" || len(k) > MaxAttributeBytes || len(v) > MaxAttributeBytes {
			return rejectf("attribute %q must have a name and a value of at most %d bytes each", k, MaxAttributeBytes)
		}
	}
	m.Attributes = maps.Clone(c.Attributes)
	s.setMember(m)
	return nil
}

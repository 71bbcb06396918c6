// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

__u32 fathom_profile_take(struct profile_disorder *disorder, __u32 start, __u32 end, __u32 expected)
{
	enum profile_arrival arrival = profile_arrival(start, end, expected);

	profile_take(disorder, arrival, start, end, expected);
	return arrival;
}

int fathom_dns_read(const __u8 *bytes, __u32 length, struct dns_message *message)
{
	return dns_read(bytes, length, message);
}

void fathom_profile_increase(struct profile_snapshot *snapshot, const struct profile_snapshot *before)
{
	__u32 i;

#define X(type, name, source) snapshot->name -= before->name;
	PROFILE_STACK_COUNTERS(X)
#undef X
#define X(type, name) snapshot->disorder.name -= before->disorder.name;
	PROFILE_DISORDER_COUNTERS(X)
#undef X
	snapshot->round_trips.sum -= before->round_trips.sum;
	snapshot->round_trips.squares -= before->round_trips.squares;
	snapshot->round_trips.count -= before->round_trips.count;
	for (i = 0; i < 3; i++)
		snapshot->limited[i] -= before->limited[i];
}

#define X(name, text) text,
const char *const fathom_profile_counter_names[PROFILE_COUNTER_COUNT] = { PROFILE_COUNTERS(X) };
const char *const fathom_dns_counter_names[DNS_COUNTER_COUNT] = { DNS_COUNTERS(X) };
const char *const fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT] = { LOOKUP_COUNTERS(X) };
#undef X

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

#define X(name, text) text,
const char *const fathom_profile_counter_names[PROFILE_COUNTER_COUNT] = { PROFILE_COUNTERS(X) };
const char *const fathom_dns_counter_names[DNS_COUNTER_COUNT] = { DNS_COUNTERS(X) };
const char *const fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT] = { LOOKUP_COUNTERS(X) };
#undef X

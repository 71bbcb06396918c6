/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The C of profiles as functions that user space calls; most of them for its tests. */
#ifndef FATHOM_PROFILE_NATIVE_H
#define FATHOM_PROFILE_NATIVE_H

#include "../dns/dns.h"
#include "../dns/lookup.h"
#include "../profile.h"

/* Counts a segment. Returns an enum profile_arrival. */
__u32 fathom_profile_take(struct profile_disorder *disorder, __u32 start, __u32 end, __u32 expected);
/* Makes the counters of a snapshot their increases since `before`. */
void fathom_profile_increase(struct profile_snapshot *snapshot, const struct profile_snapshot *before);
/* Reads a DNS message. Returns whether it is one. */
int fathom_dns_read(const __u8 *bytes, __u32 length, struct dns_message *message);

extern const char *const fathom_profile_counter_names[PROFILE_COUNTER_COUNT];
extern const char *const fathom_dns_counter_names[DNS_COUNTER_COUNT];
extern const char *const fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT];

#endif

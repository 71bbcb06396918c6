/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The algorithms as functions that user space calls; and the structs that it shares with the kernel. */
#ifndef FATHOM_NATIVE_H
#define FATHOM_NATIVE_H

#include "../profile/dns/dns.h"
#include "../profile/dns/lookup.h"
#include "../profile/profile.h"
#include "../rtt/process.h"
#include "../../bpf/selection.h"

/* What the reader of capture files needs to know of a packet before it looks its flow up. */
struct fathom_reading {
	struct packet packet;
	__u64 hash; /* of the flow */
	__u32 verdict; /* enum packet_verdict */
	__u8 is_selected;
	__u8 uses_flow;
	__u8 padding[2];
};

/* Reads a frame of `captured` bytes out of `length`. A null selection selects everything. */
void fathom_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
		 const struct selection *selection, const struct rtt_config *config, struct fathom_reading *reading);
int fathom_selection_admits(const struct selection *selection, const struct flow_key *key);
__u64 fathom_flow_hash(const struct flow_key *key, __u64 seed);
/* `flow` is null if there is none; `buckets` are config->bucket_mask + 1. Sets the output anew, but for unused samples. */
void fathom_rtt_on_packet(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, struct rtt_bucket *buckets,
			  const struct packet *packet, __u64 now, const struct rtt_config *config,
			  struct rtt_output *output);
void fathom_rtt_open(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, const struct packet *packet,
		     __u64 now, const struct rtt_config *config, struct rtt_output *output);
/* Moves what is pending into rings of twice the size. */
void fathom_rtt_grow(const struct rtt_flow *flow, const struct rtt_pending *slots, __u32 size,
		     struct rtt_pending *larger);

/* Reads a DNS message. Returns whether it is one. */
int fathom_dns_read(const __u8 *bytes, __u32 length, struct dns_message *message);

extern const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT];
extern const char *const fathom_rtt_method_names[RTT_METHOD_COUNT];
extern const char *const fathom_rtt_reason_names[RTT_REASON_COUNT];
extern const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT];
extern const char *const fathom_rtt_hook_names[RTT_HOOK_COUNT];
extern const char *const fathom_profile_counter_names[PROFILE_COUNTER_COUNT];
extern const char *const fathom_dns_counter_names[DNS_COUNTER_COUNT];
extern const char *const fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT];

#endif

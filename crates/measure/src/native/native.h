/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The algorithms as functions that user space calls; and the structs that it shares with the kernel. */
#ifndef FATHOM_NATIVE_H
#define FATHOM_NATIVE_H

#include "../hops/probe.h"
#include "../profile/dns/dns.h"
#include "../profile/dns/lookup.h"
#include "../profile/profile.h"
#include "../response/process.h"
#include "../rtt/process.h"
#include "../../bpf/selection.h"
#include "likeness.h"

/* What the reader of capture files needs to know of a packet before it looks its flow up. */
struct fathom_reading {
	struct packet packet;
	__u64 hash; /* of the flow */
	struct fathom_likeness likeness;
	__u32 verdict; /* enum packet_verdict */
	__u8 is_selected;
	__u8 uses_flow; /* rtt: it may have state */
	__u8 direction; /* response: enum response_direction, where requests go if the flow has no state that knows better */
	__u8 padding;
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
		     const struct rtt_config *config, struct rtt_pending *larger);

/* As fathom_read. */
void fathom_response_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
			  const struct selection *selection, const struct response_config *config,
			  struct fathom_reading *reading);
/* A packet of a flow that is there; `places` are config->handshake_mask + 1. Returns whether `ended` was filled in. */
int fathom_response_on_packet(struct response_flow *flow, union response_gaps *gaps, struct response_handshake *places,
			      const struct fathom_reading *reading, __u64 now, const struct response_config *config,
			      struct response_epoch *ended, __u32 *left_out);
/* A packet of a flow that is not there. Returns whether the flow begins: `flow` was zeroed, and is the flow now. */
int fathom_response_without_flow(struct response_flow *flow, struct response_handshake *places,
				 const struct fathom_reading *reading, __u64 now, const struct response_config *config);
int fathom_response_is_over(const struct response_flow *flow, __u64 now, const struct response_config *config);
void fathom_response_end_epoch(struct response_flow *flow, union response_gaps *gaps, const struct flow_key *key,
			       __u64 now, const struct response_config *config, struct response_epoch *ended);

/* Counts a segment. Returns an enum profile_arrival. */
__u32 fathom_profile_take(struct profile_disorder *disorder, __u32 start, __u32 end, __u32 expected);

/* Reads a DNS message. Returns whether it is one. */
int fathom_dns_read(const __u8 *bytes, __u32 length, struct dns_message *message);

/* Reads a packet from its IP header on. Returns an enum hops_reading. */
__u32 fathom_hops_read(const __u8 *data, __u32 length, __u16 ether_type, struct hops_header *header);
/* Writes a probe into HOPS_BYTES_MAX bytes, from its IP header on. Returns its length. */
__u32 fathom_hops_build(const struct hops_header *header, __u8 ttl, __u16 number, __u8 *bytes);
/* Does an ICMP message (`length` bytes, HOPS_BYTES_MAX + 8 at hand) answer this probe of this flow? */
int fathom_hops_is_answer(const __u8 *message, __u32 length, int is_ipv6, const struct hops_probe *probe,
			  const struct hops_flow *flow, __u64 now);
/* Takes note of a packet that leaves. Returns whether it may be cloned. */
int fathom_hops_on_packet(struct hops_flow *flow, const struct hops_header *header);
/* Takes note of a packet that arrived in the flow. */
void fathom_hops_on_reply(struct hops_flow *flow, const struct hops_header *header);
/* Takes one of `per_second` tokens. Returns whether there was one. */
int fathom_hops_spend(struct hops_budget *budget, __u64 now, __u32 per_second);

extern const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT];
extern const char *const fathom_rtt_method_names[RTT_METHOD_COUNT];
extern const char *const fathom_rtt_reason_names[RTT_REASON_COUNT];
extern const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT];
extern const char *const fathom_rtt_hook_names[RTT_HOOK_COUNT];
extern const char *const fathom_response_estimator_names[RESPONSE_ESTIMATOR_COUNT];
extern const char *const fathom_response_counter_names[RESPONSE_COUNTER_COUNT];
extern const char *const fathom_hops_counter_names[HOPS_COUNTER_COUNT];
extern const char *const fathom_profile_counter_names[PROFILE_COUNTER_COUNT];
extern const char *const fathom_dns_counter_names[DNS_COUNTER_COUNT];
extern const char *const fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT];

#endif

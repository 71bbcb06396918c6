/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The algorithms as functions that user space calls; and the structs that it shares with the kernel. */
#ifndef FATHOM_NATIVE_H
#define FATHOM_NATIVE_H

#include "../rtt/process.h"
#include "../../bpf/selection.h"

/* Reads a frame of `captured` bytes out of `length`; returns an enum packet_verdict. */
__u32 fathom_packet_parse(const __u8 *data, __u32 captured, __u32 length, __u32 link, int has_tunnels,
			  struct packet *packet);
int fathom_selection_admits(const struct selection *selection, const struct flow_key *key);
__u64 fathom_flow_hash(const struct flow_key *key, __u64 seed);
int fathom_rtt_uses_flow(const struct packet *packet);
int fathom_rtt_uses_bucket(const struct packet *packet, int has_flow, const struct rtt_config *config);
__u64 fathom_rtt_bucket_hash(const struct packet *packet, __u64 seed);
void fathom_rtt_on_packet(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, struct rtt_bucket *bucket,
			  __u64 hash, const struct packet *packet, __u64 now, const struct rtt_config *config,
			  struct rtt_output *output);
void fathom_rtt_open(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, const struct packet *packet,
		     __u64 now, const struct rtt_config *config, struct rtt_output *output);
/* Moves what is pending into rings of twice the size. */
void fathom_rtt_grow(const struct rtt_flow *flow, const struct rtt_pending *slots, __u32 size,
		     struct rtt_pending *larger);

extern const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT];
extern const char *const fathom_rtt_method_names[RTT_METHOD_COUNT];
extern const char *const fathom_rtt_reason_names[RTT_REASON_COUNT];
extern const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT];
extern const char *const fathom_rtt_hook_names[RTT_HOOK_COUNT];

#endif

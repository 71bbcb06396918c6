/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The measurement of round trips as functions that user space calls. */
#ifndef FATHOM_RTT_NATIVE_H
#define FATHOM_RTT_NATIVE_H

#include "../../native/native.h"
#include "../rtt.h"

/* Reads a frame of `captured` bytes out of `length`. A null selection selects everything. */
void fathom_rtt_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
		     const struct selection *selection, const struct rtt_config *config,
		     struct fathom_reading *reading);
/* `flow` is null if there is none; `buckets` are config->bucket_mask + 1. Sets the output anew, but for unused samples. */
void fathom_rtt_on_packet(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, struct rtt_bucket *buckets,
			  const struct packet *packet, __u64 now, const struct rtt_config *config,
			  struct rtt_output *output);
void fathom_rtt_open(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, const struct packet *packet,
		     __u64 now, const struct rtt_config *config, struct rtt_output *output);
/* Moves what is pending into rings of twice the size. */
void fathom_rtt_grow(const struct rtt_flow *flow, const struct rtt_pending *slots, __u32 size,
		     const struct rtt_config *config, struct rtt_pending *larger);

extern const char *const fathom_rtt_method_names[RTT_METHOD_COUNT];
extern const char *const fathom_rtt_reason_names[RTT_REASON_COUNT];
extern const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT];

#endif

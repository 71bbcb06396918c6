/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The measurement of responses as functions that user space calls. */
#ifndef FATHOM_RESPONSE_NATIVE_H
#define FATHOM_RESPONSE_NATIVE_H

#include "../../native/native.h"
#include "../response.h"
#include "../sizes.h"

/* Reads a frame, as fathom_rtt_read does. */
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

extern const char *const fathom_response_estimator_names[RESPONSE_ESTIMATOR_COUNT];
extern const char *const fathom_response_counter_names[RESPONSE_COUNTER_COUNT];

#endif

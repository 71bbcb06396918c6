/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The measurement of throughput and loss as functions that user space calls. */
#ifndef FATHOM_TRAFFIC_NATIVE_H
#define FATHOM_TRAFFIC_NATIVE_H

#include "../../native/native.h"
#include "../traffic.h"

/* Reads a frame of `captured` bytes out of `length`. A null selection selects everything. */
void fathom_traffic_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
			 const struct selection *selection, const struct traffic_config *config,
			 struct fathom_reading *reading);
/* A flow that was zeroed, before its first packet. */
void fathom_traffic_open(struct traffic_flow *flow, const struct packet *packet);
/* `counters` are TRAFFIC_COUNTER_COUNT. */
void fathom_traffic_on_packet(struct traffic_flow *flow, const struct packet *packet, __u64 now, __u64 *counters);

extern const char *const fathom_traffic_counter_names[TRAFFIC_COUNTER_COUNT];

#endif

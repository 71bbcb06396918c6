/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What measurements share, for user space: how a frame is read, and the key of flows. */
#ifndef FATHOM_NATIVE_H
#define FATHOM_NATIVE_H

#include "../../bpf/flow_table.h"
#include "../../bpf/packet.h"
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

int fathom_selection_admits(const struct selection *selection, const struct flow_key *key);
__u64 fathom_flow_hash(const struct flow_key *key, __u64 seed);

extern const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT];
extern const char *const fathom_packet_hook_names[PACKET_HOOK_COUNT];

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Throughput and loss of flows: what is kept of a flow. Pure, shared with user space; the
 * algorithm is in segments.h, and process.h puts it together. README.md beside this file says why
 * it is so.
 */
#ifndef FATHOM_TRAFFIC_H
#define FATHOM_TRAFFIC_H

#include "../../bpf/packet_parse.h"

/* Set before the programs are loaded, constant from then on. */
struct traffic_config {
	__u64 seed; /* of our own hash tables */
	__u8 has_tunnels; /* look into tunnels */
	__u8 padding[7];
};
FATHOM_ASSERT_SIZE(struct traffic_config, 16);

/* What one end sent. The figures of loss are of TCP. */
struct traffic_counts {
	__u64 packets;
	__u64 bytes; /* of IP, on the wire */
	__u64 segments; /* packets that take sequence numbers: data, SYN, FIN */
	__u64 repeated_bytes; /* payload that had passed before */
	__u64 lost_bytes; /* payload that filled a hole too late to have been overtaken */
	__u32 repeated; /* packets */
	__u32 needless; /* packets of them whose data had been acknowledged */
	__u32 lost; /* packets */
	__u32 overtaken; /* packets */
};
FATHOM_ASSERT_SIZE(struct traffic_counts, 56);

/*
 * Sequence numbers that have not passed, while later ones have; empty where begin and end are
 * equal.
 */
struct traffic_hole {
	__u32 begin;
	__u32 end;
	__u32 opened; /* TRAFFIC_TICK */
};

/* A power of two, so that nothing divides: 1024 ns. 32 bits of it are 73 minutes. */
#define TRAFFIC_TICK_SHIFT 10

/* Losses come in bursts. When there are more, the newest hole takes the data behind it in. */
#define TRAFFIC_HOLES 4

enum traffic_half_flag {
	TRAFFIC_HALF_HAS_SEQ = 1 << 0,
	TRAFFIC_HALF_HAS_TIMESTAMPS = 1 << 1, /* in its segments, not only in its SYN */
	TRAFFIC_HALF_ARRIVES = 1 << 2, /* live: its packets come in here */
};

enum traffic_answer {
	TRAFFIC_ANSWER_HAS_ACKED = 1 << 0,
	TRAFFIC_ANSWER_IS_FULL = 1 << 1, /* the window of the receiver */
};

/*
 * Written by the packets of its own direction, but for `acked` and `answers`, which belong to the
 * packets of the other. A packet in order touches none of the holes.
 */
struct traffic_half {
	struct traffic_counts counts;
	__u32 next_seq; /* after the highest byte seen */
	__u32 acked; /* highest acknowledgement of it */
	__u32 tsval; /* newest seen */
	__u8 flags; /* enum traffic_half_flag */
	__u8 answers; /* enum traffic_answer */
	__u8 ttl; /* of its last packet */
	__u8 early_deaths; /* packets in a row that die early */
	struct traffic_hole holes[TRAFFIC_HOLES];
};
FATHOM_ASSERT_SIZE(struct traffic_half, 56 + 12 + 4 + 48);

struct traffic_flow {
	struct traffic_half half[2]; /* by the direction of the packets */
	__u64 handshake; /* ns; when the SYN passed; 0: there is nothing to time */
	__u32 reordering; /* TRAFFIC_TICK; what comes later was not overtaken */
	__u8 opener; /* direction of who sent the SYN; of a flow met in the middle by ports: traffic_open */
	__u8 padding[3];
};
FATHOM_ASSERT_SIZE(struct traffic_flow, 256);

/* What is counted of our own doings; the texts are what users see. */
#define TRAFFIC_COUNTERS(X)                                                                                            \
	X(FILTERED, "packets left out by the selection")                                                               \
	X(FLOWS_OPENED, "flows opened")                                                                                \
	X(FLOWS_DELETED, "flows deleted")                                                                              \
	X(FLOWS_REFUSED, "flows refused: table full")                                                                  \
	X(RECORDS, "records")                                                                                          \
	X(WITHOUT_TIMESTAMPS, "segments without timestamps in a connection that has them")                             \
	X(DYING_EARLY, "segments with a TTL far below their connection's")                                             \
	X(DUPLICATED, "packets that the network duplicated")                                                           \
	X(UNSEEN,                                                                                                      \
	  "holes in a flow that were acknowledged and not filled: packets go another way, or were not captured")       \
	X(MERGED, "holes in a flow that were put together: too many at a time")                                        \
	X(RESTARTED, "sequence numbers that jumped, as those of another connection")

#define X(name, text) TRAFFIC_COUNT_##name,
enum traffic_counter { TRAFFIC_COUNTERS(X) TRAFFIC_COUNTER_COUNT };
#undef X

#endif

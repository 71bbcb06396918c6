/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel tells user space about a call of getaddrinfo. Pure, shared with user space. */
#ifndef FATHOM_LOOKUP_H
#define FATHOM_LOOKUP_H

#include "../../../bpf/flow.h"

#define LOOKUP_PROCESS_BYTES 16 /* TASK_COMM_LEN */
/* The longest name has 253 characters (RFC 1035, section 2.3.4), and its end may be a dot; a zero follows. */
#define LOOKUP_NAME_BYTES 256

/* What can go wrong in the kernel's part; the texts are what users see. */
#define LOOKUP_COUNTERS(X)                                                                                             \
	X(EVENTS_LOST, "lookups lost: ring full")                                                                      \
	X(UNKNOWN, "lookups lost: too many at a time")

#define X(name, text) LOOKUP_COUNT_##name,
enum lookup_counter { LOOKUP_COUNTERS(X) LOOKUP_COUNTER_COUNT };
#undef X

/* Set before the programs are loaded. */
struct lookup_config {
	__u64 cgroup; /* only processes in it or below; 0: all */
	__u32 cgroup_level; /* its depth */
	__u32 has_names; /* tell what was looked up */
};
FATHOM_ASSERT_SIZE(struct lookup_config, 16);

/* A call that has returned. */
struct lookup_event {
	__u64 start; /* ns, CLOCK_MONOTONIC */
	__u64 end;
	__u64 cgroup; /* the id of that of the process */
	__u32 process_id;
	__s32 result; /* 0 or EAI_* */
	char process[LOOKUP_PROCESS_BYTES];
	char name[LOOKUP_NAME_BYTES]; /* up to a zero; empty: none was given, or it is not to be told */
};
FATHOM_ASSERT_SIZE(struct lookup_event, 24 + 8 + 16 + 256);

#endif

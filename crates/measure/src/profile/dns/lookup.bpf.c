// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How long applications wait for getaddrinfo, whatever it does to find an address. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "lookup.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	struct task_struct *group_leader;
	char comm[LOOKUP_PROCESS_BYTES];
};

#pragma clang attribute pop

const volatile struct lookup_config lookup_config SEC(".rodata.lookup_config") = {};

/* A call that has not returned. */
struct lookup_call {
	__u64 start;
	const char *name; /* in the caller's memory */
};

/*
 * Calls by thread. A thread that ends within one leaves its entry behind: so the oldest goes where there are too many, and is
 * counted if it returns after all.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct lookup_call);
} lookup_calls SEC(".maps");

/* The calls that have returned, for user space. Full: the call is lost, and counted. 100 ms of 30,000 a second. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} lookup_events SEC(".maps");

/* What went wrong, by name; written by both programs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOOKUP_COUNTER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} lookup_counters SEC(".maps");

static __always_inline void lookup_count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&lookup_counters, &counter);

	if (value)
		++*value;
}

static __always_inline int lookup_is_selected(void)
{
	return !lookup_config.cgroup ||
	       bpf_get_current_ancestor_cgroup_id(lookup_config.cgroup_level) == lookup_config.cgroup;
}

static __always_inline void lookup_tell(const struct lookup_call *call, int result)
{
	struct lookup_event *event = bpf_ringbuf_reserve(&lookup_events, sizeof(*event), 0);
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!event) {
		lookup_count(LOOKUP_COUNT_EVENTS_LOST);
		return;
	}
	event->start = call->start;
	event->end = bpf_ktime_get_ns();
	event->cgroup = bpf_get_current_cgroup_id();
	event->process_id = bpf_get_current_pid_tgid() >> 32;
	event->result = result;
	/* Threads have names of their own. */
	BPF_CORE_READ_INTO(&event->process, task, group_leader, comm);
	/* Now that the library has read it, it is in memory for sure. */
	if (!lookup_config.has_names || !call->name ||
	    bpf_probe_read_user_str(event->name, sizeof(event->name), call->name) < 0)
		event->name[0] = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("uprobe")
int BPF_KPROBE(lookup_enter, const char *name)
{
	struct lookup_call call = { .name = name, .start = bpf_ktime_get_ns() };
	__u64 thread = bpf_get_current_pid_tgid();

	if (lookup_is_selected())
		bpf_map_update_elem(&lookup_calls, &thread, &call, BPF_ANY);
	return 0;
}

SEC("uretprobe")
int BPF_KRETPROBE(lookup_return, int result)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct lookup_call *call = bpf_map_lookup_elem(&lookup_calls, &thread);

	if (call) {
		lookup_tell(call, result);
		bpf_map_delete_elem(&lookup_calls, &thread);
	} else if (lookup_is_selected()) {
		lookup_count(LOOKUP_COUNT_UNKNOWN);
	}
	return 0;
}

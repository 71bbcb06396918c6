/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples that go to user space many at a time: to store one takes less time than to send it, and
 * user space handles a fifteenth of the events.
 */
#ifndef FATHOM_RTT_BATCH_BPF_H
#define FATHOM_RTT_BATCH_BPF_H

#include "maps.bpf.h"

static __always_inline struct rtt_batches *rtt_batches_of(struct rtt_flow *flow)
{
	return (void *)((struct rtt_pending *)(flow + 1) + 2 * rtt_config.slots);
}

/* Not a call: the stack of kernel 6.1 would be too deep. */
static __always_inline int rtt_emit_batch(struct packet_pass *pass, const struct rtt_batches *batches, __u32 direction)
{
	struct rtt_batch_event *event = bpf_ringbuf_reserve(&rtt_events, sizeof(*event), 0);

	if (!event)
		return 0;
	/* Field by field: a literal would be made on the stack. */
	__builtin_memset(&event->event, 0, sizeof(event->event));
	event->event.key = batches->key;
	event->event.time = pass->now;
	event->event.sample.direction = direction & 1;
	event->event.type = RTT_EVENT_BATCH;
	event->event.slot = pass->slot.index;
	event->batch = batches->half[direction & 1];
	rtt_submit(event);
	return 1;
}

/* What user space has read of it by now counts as lost, too, if it does not fit: it may be too many. */
static __always_inline void rtt_send_batch(struct packet_pass *pass, struct rtt_cpu *cpu,
					   const struct rtt_batches *batches, __u32 direction)
{
	__u32 samples = batches->half[direction & 1].count & RTT_BATCH_MASK;

	if (samples && !rtt_emit_batch(pass, batches, direction)) {
		cpu->counters[RTT_COUNT_SAMPLES_LOST] += samples;
		cpu->counters[RTT_COUNT_SAMPLES] -= samples;
	}
}

/*
 * Returns whether the sample was stored. One that took 4.3 s or more is not, nor one that came while
 * another CPU stored one of the same direction. User space may read meanwhile, so the count goes up
 * after the sample is there, by an instruction that is a barrier, too.
 */
static __always_inline int rtt_keep_sample(struct packet_pass *pass, struct rtt_cpu *cpu, struct rtt_flow *flow,
					   const struct rtt_sample *sample)
{
	struct rtt_batches *batches = rtt_batches_of(flow);
	__u32 direction = sample->direction & 1;
	struct rtt_batch *own = &batches->half[direction];
	__u32 count = *(volatile __u32 *)&own->count;
	__u32 at = count & RTT_BATCH_MASK;

	/* Or clang compares one register and indexes with its copy, which kernel 6.1 does not see. */
	asm volatile("" : "+r"(at));
	if (at >= RTT_BATCH_SAMPLES || sample->rtt >> 32)
		return 0;
	if (!flow->has_batch[direction]) {
		batches->key = pass->packet.key;
		flow->has_batch[direction] = 1;
	}
	own->samples[at] = sample->rtt;
	if (__sync_val_compare_and_swap(&own->count, count, count + 1) != count)
		return 0;
	cpu->counters[RTT_COUNT_SAMPLES]++;
	if (at + 1 == RTT_BATCH_SAMPLES) {
		rtt_send_batch(pass, cpu, batches, direction);
		*(volatile __u32 *)&own->count = count + 2;
	}
	return 1;
}

/* The flow that had this state is over: sends what there is of a direction. The batch that follows has another number. */
static __always_inline void rtt_end_batch(struct packet_pass *pass, struct rtt_cpu *cpu, struct rtt_flow *flow,
					  __u32 direction)
{
	struct rtt_batches *batches = rtt_batches_of(flow);
	__u32 *count = &batches->half[direction].count;

	if (!flow->has_batch[direction])
		return;
	rtt_send_batch(pass, cpu, batches, direction);
	*count = (*count | RTT_BATCH_MASK) + 1;
	flow->has_batch[direction] = 0;
}

static __noinline int rtt_end_batches(struct packet_pass *pass, struct rtt_cpu *cpu, struct rtt_flow *flow)
{
	if (!flow)
		return 0;
	rtt_end_batch(pass, cpu, flow, 0);
	rtt_end_batch(pass, cpu, flow, 1);
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* When the reader of a ring is woken. */
#ifndef FATHOM_RING_BPF_H
#define FATHOM_RING_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Events for which the reader is woken. More than one: several CPUs may write at a time, and each counts what the others add. */
#define RING_WAKE_BYTES 4096

/*
 * Flags for the next event. The reader comes by itself now and then, and is woken when a quarter of the ring, of so many
 * bytes, waits. Not by all that comes after: each wake-up interrupts a CPU, and a reader that is late must not cost packets
 * microseconds each.
 */
static __always_inline __u64 ring_wake(void *ring, __u64 bytes)
{
	__u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	return waiting - bytes / 4 < RING_WAKE_BYTES ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Algorithm 2 of the paper: a few modes of the distribution of gaps, each as wide as the gaps that it took. What is near is
 * relative (half of the gap), since responses take from microseconds to seconds. Pure.
 */
#ifndef FATHOM_RESPONSE_MODES_H
#define FATHOM_RESPONSE_MODES_H

#include "response.h"

static __always_inline void response_merge_modes(struct response_modes *all, __u32 at)
{
	struct response_mode *left = &all->modes[at], *right = &all->modes[at + 1];
	__u32 i;

	left->maximum = right->maximum;
	left->sum += right->sum;
	left->count += right->count;
	left->candidates += right->candidates;
	for (i = at + 1; i < RESPONSE_MODES - 1; i++)
		all->modes[i] = all->modes[i + 1];
	all->modes[RESPONSE_MODES - 1] = (struct response_mode){};
}

static __always_inline void response_insert_mode(struct response_modes *all, __u32 at, __u32 ticks)
{
	__u32 i;

	for (i = RESPONSE_MODES - 1; i > at; i--)
		all->modes[i] = all->modes[i - 1];
	all->modes[at] = (struct response_mode){ .minimum = ticks, .maximum = ticks };
}

/* Where the gap belongs: the mode that is near, or the first beyond it. */
static __always_inline __u32 response_find_mode(const struct response_modes *all, __u32 ticks, __u32 near)
{
	__u32 i;

	for (i = 0; i < RESPONSE_MODES; i++)
		if (!all->modes[i].count || ticks <= all->modes[i].maximum + near)
			break;
	return i;
}

static __always_inline int response_are_near(const struct response_mode *left, const struct response_mode *right)
{
	return left->count && right->count && right->minimum - left->maximum <= left->maximum / 2;
}

/* Returns whether a counter is full now. */
static __always_inline int response_add_to_modes(struct response_modes *all, __u32 ticks, int is_candidate)
{
	__u32 near = ticks / 2;
	__u32 at = response_find_mode(all, ticks, near);
	struct response_mode *mode;

	if (at < RESPONSE_MODES && (!all->modes[at].count || ticks + near < all->modes[at].minimum)) {
		if (all->modes[RESPONSE_MODES - 1].count)
			at = RESPONSE_MODES; /* no mode is left */
		else
			response_insert_mode(all, at, ticks);
	}
	if (at >= RESPONSE_MODES) {
		all->discarded++;
		all->discarded_time += ticks;
		return 0;
	}
	mode = &all->modes[at];
	mode->sum += ticks;
	mode->candidates += is_candidate;
	mode->count++;
	if (ticks < mode->minimum) {
		mode->minimum = ticks;
		if (at > 0 && response_are_near(&all->modes[at - 1], mode))
			response_merge_modes(all, at - 1);
	} else if (ticks > mode->maximum) {
		mode->maximum = ticks;
		if (at < RESPONSE_MODES - 1 && response_are_near(mode, &all->modes[at + 1]))
			response_merge_modes(all, at);
	}
	return mode->count >= 0x7fff;
}

#endif

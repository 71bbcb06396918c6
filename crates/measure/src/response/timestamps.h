/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What clients think, from the timestamps that they echo (RFC 7323). The echo (TSecr) tells when the server sent what the client answers, by the clock of the
 * server. The lag of a packet, its time here less that of its echo, is the way of the answer to the client, what the client thought, and the way from the client to
 * here. The least lag of a connection is that of a client that did not think; what a packet has above it was thought. Pure.
 */
#ifndef FATHOM_RESPONSE_TIMESTAMPS_H
#define FATHOM_RESPONSE_TIMESTAMPS_H

#include "response.h"

/* A clock is known after so many of its ticks, and so much time, in units: 12 ms. */
#define RESPONSE_ECHO_TICKS 12
#define RESPONSE_ECHO_TIME 12000
/* Clocks by how often they tick, in ns: Linux, FreeBSD, macOS and Windows; Linux from 6.7 on, if a route asks for it; and older systems. */
#define RESPONSE_CLOCKS 7
/*
 * That of 1 ms is known as soon as it is found: thinking makes ticks look longer, and only that of
 * 1 us has shorter ones.
 */
#define RESPONSE_CLOCK_MS 1
/* Those of many servers that take long to be known: meanwhile the least lag is sought for each. */
#define RESPONSE_CLOCK_10MS 3
#define RESPONSE_CLOCK_4MS 4

static __always_inline __u32 response_tick(__u32 clock)
{
	switch (clock) {
	case RESPONSE_CLOCK_MS:
		return 1000000;
	case 2:
		return 1000;
	case RESPONSE_CLOCK_10MS:
		return 10000000;
	case RESPONSE_CLOCK_4MS:
		return 4000000;
	case 5:
		return 3333333;
	case 6:
		return 100000000;
	}
	return 500000000;
}

/*
 * What the least lag of an epoch has grown by is taken for drift, if that may be it and it is less than a millisecond and a
 * quarter of a tick; a client that thinks each time has more.
 */
#define RESPONSE_ECHO_GROWTH 1000
/* If the least lag of an epoch has grown by an eighth of this time or more, in units: 8 s, the clock ticks slower than was thought. */
#define RESPONSE_ECHO_CHECK 8000000
/* Lags that tell nothing. */
#define RESPONSE_NO_LAG -1LL
/* So much, in ns, may lie between the segments of an answer. */
#define RESPONSE_ECHO_SPREAD 1000000

/* Within a twelfth: 3.33 and 4 ms are told apart. */
static __always_inline int response_is_about(__u64 ns, __u64 tick)
{
	return ns * 12 >= tick * 11 && ns * 12 <= tick * 13;
}

/* Which clock ticks about so often; 0: none. */
static __always_inline __u32 response_find_clock(__u64 ns)
{
	__u32 clock;

	for (clock = 1; clock <= RESPONSE_CLOCKS; clock++)
		if (response_is_about(ns, response_tick(clock)))
			return clock;
	return 0;
}

/*
 * `is_fresh`: what is echoed was sent not long before. What the first packet that was seen of a
 * connection echoes may be old.
 */
static __always_inline void response_restart_echoes(struct response_echoes *echoes, __u32 time, __u32 echo,
						    int is_fresh)
{
	*echoes = (struct response_echoes){
		.base_time = time,
		.base_echo = echo,
		.seen = is_fresh,
		.untold = is_fresh,
	};
}

/*
 * A gap that counts, while the clock is learnt: its lag will be known when the clock is. That of the
 * base never is.
 */
static __always_inline void response_add_echo(struct response_echoes *echoes, const struct packet *packet, __u64 now)
{
	__u32 time = now >> RESPONSE_ECHO_SHIFT;

	if (echoes->tick || !echoes->base_echo || !(packet->flags & PACKET_HAS_TIMESTAMP) || time == echoes->base_time)
		return;
	echoes->think += time - echoes->base_time;
	echoes->least += packet->tsecr - echoes->base_echo;
	echoes->gaps++;
}

/*
 * A packet, so many units and ticks after the base. Returns by how much the least lag so far is below
 * that of the base if the clock ticks so often, in 64 units; `least`: so much it was. `seen`: packets
 * within a tick of it.
 */
static __always_inline __u32 response_seek_least(__u32 least, __u32 units, __u32 ticks, __u32 tick, __u8 *seen)
{
	__s64 less = ((__s64)ticks * tick >> RESPONSE_ECHO_SHIFT) - units;
	__s64 above = ((__s64)least << RESPONSE_LATE_SHIFT) - less;

	if (above < tick >> RESPONSE_ECHO_SHIFT && *seen < 0xff)
		++*seen;
	if (above >= 0)
		return least;
	less >>= RESPONSE_LATE_SHIFT;
	return less < 0xffff ? less : 0xffff;
}

/*
 * While the clock is learnt, the halves of `phases` have by how much the least lag is below that of
 * the base: the lower if it ticks every 4 ms, the upper if it does every 10 ms.
 */
static __always_inline void response_seek_leasts(struct response_echoes *echoes, __u32 units, __u32 ticks)
{
	__u32 of_4ms = response_seek_least(echoes->phases & 0xffff, units, ticks, response_tick(RESPONSE_CLOCK_4MS),
					   &echoes->seen);
	__u32 of_10ms = response_seek_least(echoes->phases >> 16, units, ticks, response_tick(RESPONSE_CLOCK_10MS),
					    &echoes->untold);

	echoes->phases = of_10ms << 16 | of_4ms;
}

/* The base gets the least lag so far, if that was sought. Returns by how much it is less, in units. */
static __always_inline __u32 response_lower_base(struct response_echoes *echoes)
{
	__u32 less = 0;

	if (echoes->tick == response_tick(RESPONSE_CLOCK_4MS)) {
		less = echoes->phases & 0xffff;
	} else if (echoes->tick == response_tick(RESPONSE_CLOCK_10MS)) {
		less = echoes->phases >> 16;
		echoes->seen = echoes->untold;
	} else {
		echoes->seen = 1;
	}
	less <<= RESPONSE_LATE_SHIFT;
	echoes->base_time -= less;
	echoes->untold = 0;
	return less;
}

/* The clock is known: now what was added by response_add_echo is known, too. */
static __always_inline void response_begin_lags(struct response_flow *flow, struct response_echoes *echoes)
{
	__s64 lags = (__s64)echoes->think * (1 << RESPONSE_ECHO_SHIFT) - (__s64)(__s32)echoes->least * echoes->tick;

	lags += ((__s64)response_lower_base(echoes) << RESPONSE_ECHO_SHIFT) * echoes->gaps;
	echoes->think = lags >> RESPONSE_ECHO_SHIFT;
	echoes->least = RESPONSE_NO_LEAST;
	echoes->late = 0;
	echoes->thought = 0;
	echoes->phases = (__u64)echoes->gaps * echoes->tick >> (RESPONSE_ECHO_SHIFT + 1);
	flow->retained -= lags >> RESPONSE_TICK_SHIFT;
}

/*
 * Learns how often the clock of the server ticks. What was thought before this packet looks like longer ticks; twice as many ticks later it would be others. Returns
 * whether the clock is known now.
 */
static __always_inline int response_learn_clock(struct response_echoes *echoes, __u32 time, __u32 echo)
{
	__u32 units = time - echoes->base_time;
	__u32 ticks = echo - echoes->base_echo;
	__u32 clock;

	if (!echoes->base_echo || (!echoes->seen && ticks) || units > 0x7fffffff || ticks > 0x7fffffff) {
		response_restart_echoes(echoes, time, echo, !!echoes->base_echo);
		return 0;
	}
	if (echoes->seen)
		response_seek_leasts(echoes, units, ticks);
	if (ticks < RESPONSE_ECHO_TICKS || ticks < 2U * echoes->late || units < RESPONSE_ECHO_TIME)
		return 0;
	clock = response_find_clock(((__u64)units << RESPONSE_ECHO_SHIFT) / ticks);
	if (clock == RESPONSE_CLOCK_MS || (clock && clock == echoes->thought))
		echoes->tick = response_tick(clock);
	echoes->thought = clock;
	echoes->late = !clock ? 0 : ticks < 0xffff ? ticks : 0xffff;
	return !!echoes->tick;
}

/* Units, rounded, of which there may be so many. */
static __always_inline void response_add_late(struct response_echoes *echoes, __u32 units)
{
	__u32 late = echoes->late + ((units + (1 << RESPONSE_LATE_SHIFT) / 2) >> RESPONSE_LATE_SHIFT);

	echoes->late = late < 0xffff ? late : 0xffff;
}

/* So much, in ns, and so many gaps: more is not made good, and fits no 32 bits. */
#define RESPONSE_ECHO_MORE (1LL << 30)
#define RESPONSE_ECHO_GAPS 2000

/*
 * A packet has the least lag so far, `less` below that of the base: others are held against it, those
 * of the epoch so far, too.
 */
static __always_inline void response_renew_base(struct response_flow *flow, struct response_echoes *echoes, __u32 time,
						__u32 echo, __u64 less)
{
	if (less < RESPONSE_ECHO_MORE && echoes->gaps < RESPONSE_ECHO_GAPS) {
		__u32 units = (__u32)(less >> RESPONSE_ECHO_SHIFT) * echoes->gaps;

		echoes->think += units;
		response_add_late(echoes, units);
		flow->retained -= units << (RESPONSE_ECHO_SHIFT - RESPONSE_TICK_SHIFT);
	}
	echoes->base_time = time;
	echoes->base_echo = echo;
	echoes->least = 0;
}

/* A segment of the client. Returns by how much its lag is above the least, in ns; RESPONSE_NO_LAG: it is not known. */
static __always_inline __s64 response_read_echo(struct response_flow *flow, const struct packet *packet, __u64 now)
{
	struct response_echoes *echoes = &flow->state.tcp.echoes;
	__u32 time = now >> RESPONSE_ECHO_SHIFT;
	__s64 elapsed, server, lag;

	if (!(packet->flags & PACKET_HAS_TIMESTAMP) || !packet->tsecr)
		return RESPONSE_NO_LAG;
	if (!echoes->tick) {
		if (!response_learn_clock(echoes, time, packet->tsecr))
			return RESPONSE_NO_LAG;
		response_begin_lags(flow, echoes);
	}
	elapsed = (__s64)(__s32)(time - echoes->base_time) * (1 << RESPONSE_ECHO_SHIFT);
	server = (__s64)(__s32)(packet->tsecr - echoes->base_echo) * echoes->tick;
	lag = elapsed - server;
	/* The clock cannot have run so much faster: it is another, or ticks more often than was thought. */
	if (server > (__s64)RESPONSE_ECHO_TICKS * echoes->tick && lag < -(server >> 3)) {
		response_restart_echoes(echoes, time, packet->tsecr, 1);
		return RESPONSE_NO_LAG;
	}
	if (lag < 0) {
		response_renew_base(flow, echoes, time, packet->tsecr, -lag);
		lag = 0;
	}
	echoes->seen += echoes->seen < 0xff && lag < echoes->tick;
	if (lag >> RESPONSE_ECHO_SHIFT < echoes->least)
		echoes->least = lag >> RESPONSE_ECHO_SHIFT;
	return lag;
}

/* The connection begins: nothing was thought before the handshake was acknowledged. */
static __always_inline void response_begin_echoes(struct response_flow *flow,
						  const struct response_handshake *handshake,
						  const struct packet *packet, __u64 now)
{
	struct response_echoes *echoes = &flow->state.tcp.echoes;

	response_restart_echoes(echoes, handshake->acked, handshake->echo, 1);
	echoes->first = handshake->echo ? RESPONSE_ECHO_IS_PROMPT : 0;
	response_read_echo(flow, packet, now);
}

/*
 * Does the lag of a packet tell what the client thought in the gap before it? Of an answer of several segments a client echoes the first that it had not
 * acknowledged (RFC 7323, section 4.3); `is_at_once`: the others did not come later.
 */
static __always_inline int response_is_telling(const struct response_echoes *echoes, __s64 lag, int is_at_once,
					       __s64 gap_ns)
{
	__s64 rounding = 2LL * echoes->tick;

	if (!is_at_once && lag > rounding + RESPONSE_ECHO_SPREAD)
		return 0;
	return lag <= gap_ns + rounding;
}

/*
 * A request of the first epoch: what the least lag of an epoch is above that of all these may be a longer way. Packets without data tell nothing of it: they come at
 * once where a connection begins, and later with the next request.
 */
static __always_inline void response_keep_first(struct response_echoes *echoes, __u32 units)
{
	__u32 first = (units >> RESPONSE_ECHO_FIRST_SHIFT) + 1;
	__u32 least = echoes->first & RESPONSE_ECHO_FIRST;

	if (first > RESPONSE_ECHO_FIRST)
		first = RESPONSE_ECHO_FIRST;
	if (!least || first < least)
		echoes->first += first - least;
}

/*
 * What the client thought in a gap that counts, of so many ticks. If that is less than half of it, the
 * path may have been late.
 */
static __always_inline void response_add_lag(struct response_echoes *echoes, __s64 lag, __u32 gap)
{
	__u32 units = lag >> RESPONSE_ECHO_SHIFT;
	__u32 tick = echoes->tick >> RESPONSE_ECHO_SHIFT;

	if (!(echoes->first & RESPONSE_ECHO_HAS_FIRST))
		response_keep_first(echoes, units);
	echoes->think += units;
	if (units < tick + (gap >> (RESPONSE_ECHO_SHIFT - RESPONSE_TICK_SHIFT) >> 1))
		response_add_late(echoes, units);
	else if (echoes->thought < 0xff)
		echoes->thought++;
	echoes->gaps++;
	if (units >= tick)
		units = tick ? units % tick : 0; /* of 32 bits: of 64 it costs 10 ns more */
	echoes->phases += units;
}

/* The least lag of an epoch above that of the base: have the clocks drifted apart? Then the base has what is the least now. */
static __always_inline void response_follow_drift(struct response_echoes *echoes, __u32 elapsed)
{
	__u32 growth = RESPONSE_ECHO_GROWTH + (echoes->tick >> RESPONSE_ECHO_SHIFT >> 2);
	__u32 ticks;

	if (!echoes->tick || echoes->least > growth || echoes->least > elapsed >> RESPONSE_ECHO_DRIFT_SHIFT)
		return;
	ticks = ((__u64)elapsed << RESPONSE_ECHO_SHIFT) / echoes->tick;
	echoes->base_echo += ticks;
	echoes->base_time += ((__u64)ticks * echoes->tick >> RESPONSE_ECHO_SHIFT) + echoes->least;
	/* The least lag is that of one epoch now. */
	echoes->seen = echoes->gaps < 0xff ? echoes->gaps : 0xff;
}

/* An epoch is over, and its clock was found but once: what it tells with that is not sure. */
static __always_inline void response_settle_echoes(struct response_flow *flow)
{
	struct response_echoes *echoes = &flow->state.tcp.echoes;

	if (echoes->tick || !echoes->thought)
		return;
	echoes->tick = response_tick(echoes->thought);
	echoes->first &= ~RESPONSE_ECHO_IS_PROMPT;
	response_begin_lags(flow, echoes);
}

/* At the end of an epoch. What was learnt stays, unless it was wrong. */
static __always_inline void response_end_echoes(struct response_echoes *echoes, __u64 now)
{
	__u32 elapsed = (__u32)(now >> RESPONSE_ECHO_SHIFT) - echoes->base_time;

	if (echoes->tick && elapsed > RESPONSE_ECHO_CHECK && echoes->least != RESPONSE_NO_LEAST &&
	    echoes->least > elapsed / 8) {
		response_restart_echoes(echoes, 0, 0, 0);
		return;
	}
	if (echoes->first & RESPONSE_ECHO_FIRST)
		echoes->first |= RESPONSE_ECHO_HAS_FIRST;
	response_follow_drift(echoes, elapsed);
	if (echoes->tick) {
		echoes->late = 0;
		echoes->thought = 0;
		echoes->phases = 0;
		echoes->untold = 0;
	}
	echoes->think = 0;
	echoes->gaps = 0;
	echoes->least = echoes->tick ? RESPONSE_NO_LEAST : 0;
}

#endif

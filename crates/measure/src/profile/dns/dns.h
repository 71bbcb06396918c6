/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DNS messages as far as exchanges need them, and what the kernel tells user space about each. Pure, shared with user space;
 * README.md beside this file says why it is so.
 */
#ifndef FATHOM_DNS_H
#define FATHOM_DNS_H

#include "../../../bpf/flow.h"

#define DNS_PORT 53
#define DNS_HEADER_BYTES 12
#define DNS_NAME_MAX 255 /* with the lengths of its labels (RFC 1035, section 2.3.4) */
#define DNS_NAME_BYTES 256 /* in whole words */
#define DNS_QUESTION_END 4 /* bytes of type and class */
/* A header and a question, as long as they can be, in whole words. */
#define DNS_BYTES_MAX 272
#define DNS_PROCESS_BYTES 16 /* TASK_COMM_LEN */

/* What can go wrong in the kernel's part; the texts are what users see. */
#define DNS_COUNTERS(X)                                                                                                \
	X(EVENTS_LOST, "DNS messages lost: ring full")                                                                 \
	X(UNREADABLE, "datagrams of port 53 that are no DNS query or answer")                                          \
	X(BEYOND, "DNS messages behind others in one TCP segment, not looked at")

#define X(name, text) DNS_COUNT_##name,
enum dns_counter { DNS_COUNTERS(X) DNS_COUNTER_COUNT };
#undef X

/* Set before the programs are loaded. */
struct dns_config {
	__u64 cgroup; /* only sockets in it or below; 0: all */
	__u32 cgroup_level; /* its depth */
	__u32 has_names; /* tell what was asked for */
};
FATHOM_ASSERT_SIZE(struct dns_config, 16);

/* The header and the question of a message. */
struct dns_message {
	__u32 question; /* hash of name, type and class; the case of letters does not count */
	__u16 id;
	__u16 query_type;
	__u8 is_answer;
	__u8 is_truncated;
	__u8 response_code; /* of the header: the upper bits that EDNS has are elsewhere */
	__u8 has_question; /* an answer may have none: then question and query_type are 0 */
};
FATHOM_ASSERT_SIZE(struct dns_message, 12);

enum dns_event_kind {
	DNS_QUERY, /* leaves a socket of this host */
	DNS_ANSWER, /* arrives at one */
	DNS_ERROR, /* the socket learns of an error; there is no message */
};

struct dns_event {
	__u64 time; /* ns, CLOCK_MONOTONIC */
	__u64 socket; /* its cookie */
	__u64 cgroup; /* the id of that of the socket */
	struct flow_address local;
	struct flow_address remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 process_id; /* that was running: of a query that of its sender */
	struct dns_message message;
	__u32 error; /* errno; 0: not known */
	__u8 kind; /* enum dns_event_kind */
	__u8 protocol; /* IPPROTO_* */
	__u8 has_name; /* a struct dns_name follows */
	__u8 padding[5];
	char process[DNS_PROCESS_BYTES];
};
FATHOM_ASSERT_SIZE(struct dns_event, 24 + 32 + 8 + 12 + 4 + 8 + 16);

/* The name that a query asks for: labels with their lengths, and zeros behind the last. A length that none has: it could not be read. */
struct dns_name {
	__u8 bytes[DNS_NAME_BYTES];
};
FATHOM_ASSERT_SIZE(struct dns_name, DNS_NAME_BYTES);

/* Servers may answer in other letters than they were asked in (RFC 1035, section 2.3.3): a few other bytes are alike too. */
static __always_inline __u32 dns_hash(__u32 hash, __u8 byte)
{
	return (hash ^ (byte | 0x20)) * 16777619U;
}

/* What is known of a name while it is read. */
struct dns_walk {
	__u32 label; /* what is left of it */
	__u32 hash;
	__u32 end; /* where the name has ended; 0: not yet */
};

#define DNS_WALK_START                                                                                                 \
	{                                                                                                              \
		.hash = 2166136261U                                                                                    \
	}

/*
 * Reads the byte `index` of a name. Returns whether it was the last, or one that cannot be. At most DNS_NAME_MAX steps make a
 * name.
 */
static __always_inline int dns_step(const __u8 *bytes, __u32 length, __u32 index, struct dns_walk *walk)
{
	__u32 at = DNS_HEADER_BYTES + index;
	__u8 byte;

	if (at >= length || at >= DNS_BYTES_MAX)
		return 1;
	byte = bytes[at];
	if (walk->label) {
		walk->label--;
	} else if (!byte) {
		walk->end = at;
		return 1;
	} else if (byte > 63) { /* a pointer: there is nothing before it to point to */
		return 1;
	} else {
		walk->label = byte;
	}
	walk->hash = dns_hash(walk->hash, byte);
	return 0;
}

enum dns_reading {
	DNS_IS_NONE, /* no message, or not one that is understood here */
	DNS_HAS_QUESTION, /* it follows */
	DNS_IS_BARE, /* an answer without a question, as servers give that could not read the query */
};

/* The header of a query or an answer. `length` may be less than the message has. */
static __always_inline enum dns_reading dns_read_header(const __u8 *bytes, __u32 length, struct dns_message *message)
{
	__u32 questions;

	if (length < DNS_HEADER_BYTES || length > DNS_BYTES_MAX)
		return DNS_IS_NONE;
	if (bytes[2] & 0x78) /* another opcode than QUERY */
		return DNS_IS_NONE;
	*message = (struct dns_message){
		.id = bytes[0] << 8 | bytes[1],
		.is_answer = bytes[2] >> 7,
		.is_truncated = bytes[2] >> 1 & 1,
		.response_code = bytes[3] & 0x0f,
	};
	questions = bytes[4] << 8 | bytes[5];
	if (!questions && message->is_answer)
		return DNS_IS_BARE;
	return questions == 1 ? DNS_HAS_QUESTION : DNS_IS_NONE;
}

/* Type and class, behind the name. Returns whether they are there. */
static __always_inline int dns_read_end(const __u8 *bytes, __u32 length, const struct dns_walk *walk,
					struct dns_message *message)
{
	__u32 at = walk->end;
	__u32 i;

	if (!at || at >= DNS_BYTES_MAX - DNS_QUESTION_END || at + 1 + DNS_QUESTION_END > length)
		return 0;
	message->question = walk->hash;
	for (i = 1; i <= DNS_QUESTION_END; i++)
		message->question = dns_hash(message->question, bytes[at + i]);
	message->query_type = bytes[at + 1] << 8 | bytes[at + 2];
	message->has_question = 1;
	return 1;
}

/* All of it. Returns whether it is a message. (wire.bpf.c has the same steps, in a loop that the verifier walks once.) */
static __always_inline int dns_read(const __u8 *bytes, __u32 length, struct dns_message *message)
{
	enum dns_reading reading = dns_read_header(bytes, length, message);
	struct dns_walk walk = DNS_WALK_START;
	__u32 i;

	if (reading != DNS_HAS_QUESTION)
		return reading == DNS_IS_BARE;
	for (i = 0; i < DNS_NAME_MAX; i++)
		if (dns_step(bytes, length, i, &walk))
			break;
	return dns_read_end(bytes, length, &walk, message);
}

#endif

//! What a store takes of others, each batch once.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use fathom_record::{Count, Time};
use fathom_store::{Batches, Number, Settings, Unreadable, Writer, encode, is_kind, received};

/// The bytes of a batch of counts, as an agent sends it.
fn sent(spool: u128, sequence: u64, counts: &[u64]) -> Vec<u8> {
    let mut batches = Batches::new("gateway");
    for &number in counts {
        batches.put(&Count::new(Time(number), "rtt", "samples", number));
    }
    let rows = counts.len() as u32;
    let number = Number {
        spool,
        sequence,
        rows,
    };
    encode(number, &batches.take()[0]).unwrap()
}

#[test]
fn what_was_sent_twice_is_kept_once() {
    let directory = tempfile::tempdir().unwrap();
    let send = |writer: &mut Writer, bytes: &[u8]| {
        let taken = received(bytes).unwrap().into_iter();
        let taken = taken.map(|one| writer.append_sent(&one).unwrap());
        taken.collect::<Vec<_>>()
    };
    let first = [sent(7, 1, &[1]), sent(7, 2, &[2, 3]), sent(8, 1, &[4])].concat();
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    assert_eq!(send(&mut writer, &first), [true, true, true]);
    assert_eq!(send(&mut writer, &first), [false, false, false]);
    writer.sync().unwrap();
    // Its log tells the next one what was taken,
    drop(writer);
    let (mut writer, recovered) = Writer::open(directory.path(), Settings::default()).unwrap();
    assert_eq!(recovered.rows, 4);
    assert_eq!(send(&mut writer, &first), [false, false, false]);
    assert_eq!(send(&mut writer, &sent(7, 3, &[5])), [true]);
    // and so do its segments.
    writer.finish().unwrap();
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    assert_eq!(send(&mut writer, &first), [false, false, false]);
    assert_eq!(send(&mut writer, &sent(7, 3, &[5])), [false]);
    assert_eq!(send(&mut writer, &sent(7, 4, &[6])), [true]);
    assert_eq!(writer.finish().unwrap().rows, 1);
}

#[test]
fn a_number_whose_records_are_cut_off_was_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = sent(7, 1, &[1, 2]);
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    let [one] = received(&bytes).unwrap().try_into().unwrap();
    writer.append_sent(&one).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let log = std::fs::read_dir(directory.path().join("log"));
    let log = log.unwrap().next().unwrap().unwrap().path();
    let file = std::fs::OpenOptions::new().write(true).open(log).unwrap();
    file.set_len(bytes.len() as u64 - 1).unwrap();
    let (mut writer, recovered) = Writer::open(directory.path(), Settings::default()).unwrap();
    assert_eq!(
        (recovered.rows, recovered.cut_off_bytes),
        (0, bytes.len() as u64 - 1)
    );
    let [one] = received(&bytes).unwrap().try_into().unwrap();
    assert!(writer.append_sent(&one).unwrap());
}

#[test]
fn bytes_that_nobody_may_send_are_refused() {
    let good = sent(7, 1, &[1]);
    assert_eq!(received(&good[..good.len() - 1]), Err(Unreadable::Bytes(0)));
    for at in [0, 10, 30, good.len() - 1] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        assert_eq!(received(&changed), Err(Unreadable::Bytes(0)), "byte {at}");
    }
    assert_eq!(received(&good[36..]), Err(Unreadable::NoNumber));
    for (kind, is_good) in [
        ("rtt_2", true),
        ("../x", false),
        ("", false),
        ("log", false),
    ] {
        assert_eq!(is_kind(kind), is_good, "{kind}");
    }
}

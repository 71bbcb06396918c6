use fathom_record::{Count, Nanoseconds, Time, record};

use super::*;

record! {
    /// Another kind.
    #[record = "dns_wait"]
    pub struct DnsWait {
        /// When.
        pub time: Time,
        /// How long.
        pub wait_ns: Nanoseconds,
    }
}

fn count(count: u64) -> Count {
    Count::new(Time(0), "walk", "steps", count)
}

fn open(path: &Path, format: Format) -> Output {
    let target = OutputTarget {
        output: Some(path.to_owned()),
        host: Some("gateway".to_owned()),
    };
    let signals = Signals::default();
    Output::open(&target, format, Count::SCHEMA, Backlog::Short, &signals).unwrap()
}

#[test]
fn a_file_is_appended_to_and_has_a_header() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("counts.csv");
    for number in [1, 2] {
        let mut output = open(&path, Format::Csv);
        output.put(&count(number));
        output.finish().unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("count,"))
            .count(),
        2
    );
    assert!(text.starts_with("kind,host,time,measurement,name,count\n"));
}

#[test]
fn a_table_has_one_kind_of_record_and_others_have_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.csv");
    let mut output = open(&path, Format::Csv);
    let other = DnsWait {
        time: Time(0),
        wait_ns: Nanoseconds(7),
    };
    output.put(&count(1));
    output.put(&other);
    output.put(&count(2));
    output.finish().unwrap();
    let lines = |name: &str| {
        let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
        text.lines()
            .map(|line| line.split(',').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(lines("run.csv"), ["kind", "count", "count"]);
    assert_eq!(lines("run.dns_wait.csv"), ["kind", "dns_wait"]);
}

#[test]
fn a_full_disk_is_told_by_the_name_of_the_file() {
    let mut output = open(Path::new("/dev/full"), Format::Text);
    output.put_text("some line\n");
    let error = output.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write to /dev/full: 0 bytes were written, 10 more were not"
    );
    let cause = error.downcast_ref::<io::Error>().unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::StorageFull);
}

//! What others make of the agent's metrics: Prometheus, and a receiver of OTLP.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_lab::{Namespace, Process, Topology, wait_until};
use fathom_tests::{cache, certificates, repository};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{DELAY, PATIENCE, exchange, lab, records, start, wait_until_attached};

/// The port that the client asks, and the network that its server is in.
const SERVICE: &str = "tcp/8080";
/// A quantile of schema 4 is within 6.2 %, and intervals have not all the same.
const ERROR: f64 = 0.1;

fn network() -> String {
    let address = Topology::SERVER_V4.to_string();
    let (prefix, _) = address.rsplit_once('.').unwrap();
    format!("{prefix}.0/24")
}

/// `None`, having said why, where it is not installed.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let found = folders.find_map(|folder| Some(folder.join(program)).filter(|it| it.exists()));
    if found.is_none() {
        println!("skipped: {program} is not installed: `make setup` does that");
    }
    found
}

/// Prometheus, which scrapes the agent of this host.
struct Prometheus<'a> {
    namespace: &'a Namespace,
    address: String,
    _process: Process,
}

impl<'a> Prometheus<'a> {
    fn start(namespace: &'a Namespace, folder: &Path, port: u16, options: &[&str]) -> Self {
        let config = folder.join(format!("{port}.yml"));
        let text = "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n\
            scrape_configs:\n- job_name: fathom\n  static_configs: [{targets: ['127.0.0.1:9816']}]\n";
        fs::write(&config, text).unwrap();
        let address = format!("127.0.0.1:{port}");
        let mut command = namespace.command("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join(port.to_string()).display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .args(options)
            .stderr(Stdio::inherit());
        Self {
            namespace,
            address,
            _process: Process::start(&mut command).unwrap(),
        }
    }

    /// The value of the one series that answers; `None`: there is none yet.
    fn ask(&self, query: &str) -> Option<f64> {
        let mut curl = self.namespace.command("curl");
        curl.args(["-s", "-G", "--data-urlencode"])
            .arg(format!("query={query}"))
            .arg(format!("http://{}/api/v1/query", self.address));
        let answer: Value = serde_json::from_slice(&curl.output().unwrap().stdout).ok()?;
        let result = answer["data"]["result"].as_array()?;
        assert!(result.len() < 2, "{query}: {result:#?}");
        result.first()?["value"][1].as_str()?.parse().ok()
    }

    fn wait_for(&self, query: &str, wanted: f64) {
        wait_until(PATIENCE, &format!("{query} to be {wanted}"), || {
            self.ask(query) == Some(wanted)
        })
        .unwrap();
    }
}

/// What the records of the agent say: bytes to the server, round trips to its network, and their
/// median in seconds, of the interval that has most.
struct Told {
    bytes: f64,
    samples: f64,
    median: f64,
}

fn told(output: &Path) -> Told {
    let text = fs::read_to_string(output).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let records: Vec<Value> = whole
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let of = |kind: &'static str| {
        let is_there = move |it: &&Value| it["kind"] == kind && it["destination_port"] == 8080;
        records.iter().filter(is_there)
    };
    let sum = |kind, field: &str| of(kind).filter_map(|it| it[field].as_f64()).sum();
    let most = of("rtt_aggregate").max_by_key(|it| it["rtt_samples"].as_u64());
    Told {
        bytes: sum("traffic", "bytes"),
        samples: sum("rtt_aggregate", "rtt_samples"),
        median: most.map_or(0.0, |it| it["rtt_p50_ns"].as_f64().unwrap_or(0.0) / 1e9),
    }
}

#[fathom_lab::test]
fn prometheus_scrapes_the_agent() {
    if installed("prometheus").is_none() {
        return;
    }
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("records.json");
    let _agent = start(&lab.client, &output, &["--label", "site=ber1,rack=7"]);
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    let feature = ["--enable-feature=native-histograms"];
    let native = Prometheus::start(&lab.client, directory.path(), 9090, &feature);
    let classic = Prometheus::start(&lab.client, directory.path(), 9091, &[]);
    exchange(&lab);
    let labels = format!("{{network=\"{}\",service=\"{SERVICE}\"}}", network());
    let bytes = format!("fathom_traffic_bytes_total{labels}");
    // The flow has ended, and its last interval.
    let mut before = None;
    wait_until(PATIENCE, "the records of the flow", || {
        let now = told(&output).bytes;
        let is_all = now > 0.0 && before == Some(now) && native.ask(&bytes) == before;
        before = Some(now);
        is_all
    })
    .unwrap();
    let told = told(&output);
    classic.wait_for(&bytes, told.bytes);
    native.wait_for(
        &format!("histogram_count(fathom_rtt_seconds{labels})"),
        told.samples,
    );
    classic.wait_for(&format!("fathom_rtt_seconds_count{labels}"), told.samples);

    // What the lab did: a round trip is twice its delay.
    let round_trip = 2.0 * DELAY.as_secs_f64();
    let median = |query: String, of: &Prometheus<'_>| {
        let quantile = format!("histogram_quantile(0.5, {query}{labels})");
        of.ask(&quantile).unwrap()
    };
    let exact = median("fathom_rtt_seconds".to_owned(), &native);
    assert!(
        (exact / told.median - 1.0).abs() < ERROR,
        "{exact} for {}",
        told.median
    );
    assert!((0.9..1.5).contains(&(exact / round_trip)), "{exact}");
    // The bucket from 10 to 25 ms.
    let coarse = median("fathom_rtt_seconds_bucket".to_owned(), &classic);
    assert!((0.01..=0.025).contains(&coarse), "{coarse}");
    for prometheus in [&native, &classic] {
        prometheus.wait_for("fathom_build_info{version!=\"\"}", 1.0);
        prometheus.wait_for("target_info{rack=\"7\",site=\"ber1\"}", 1.0);
        // As docs/metrics.md has it.
        let of_site =
            "sum by (site) (fathom_build_info * on (instance) group_left (site) target_info)";
        prometheus.wait_for(of_site, 1.0);
        prometheus.wait_for("up", 1.0);
    }

    // By the rules of the format and of names.
    let mut curl = lab.client.command("curl");
    let page = curl
        .args(["-s", "http://127.0.0.1:9816/metrics"])
        .output()
        .unwrap();
    let path = directory.path().join("page");
    fs::write(&path, page.stdout).unwrap();
    let checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(File::open(&path).unwrap())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[fathom_lab::test]
fn a_receiver_of_otlp_that_comes_late_gets_all() {
    otlp(false);
}

/// Each shows the other a certificate.
#[fathom_lab::test]
fn a_receiver_of_otlp_by_tls_gets_all() {
    otlp(true);
}

/// Of the receiver; with the certificates in this directory.
fn url(certificates: &Path, has_tls: bool) -> String {
    if !has_tls {
        return "http://127.0.0.1:4318".to_owned();
    }
    let [authority, certificate, key] =
        ["ca.pem", "agent.pem", "agent.key"].map(|name| certificates.join(name));
    format!(
        "https://127.0.0.1:4318?ca={}&cert={}&key={}",
        authority.display(),
        certificate.display(),
        key.display()
    )
}

fn otlp(has_tls: bool) {
    let collector = cache().join("collector");
    if !collector.exists() {
        println!(
            "skipped: there is no {}: `make setup` builds it",
            collector.display()
        );
        return;
    }
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let [output, said, received] =
        ["records.json", "said", "received"].map(|name| directory.path().join(name));
    certificates(directory.path(), "ca.pem", &["server", "agent"]).unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let url = url(directory.path(), has_tls);
    let networks = directory.path().join("networks.csv");
    fs::write(&networks, format!("{},lab\n", network())).unwrap();
    let mut command = lab
        .client
        .command(fathom_tests::binary().unwrap().to_str().unwrap());
    command
        .args(["agent", "--interval", "1s", "--metrics", "none"])
        .args(["--otlp", &url, "--otlp-interval", "200ms"])
        .args(["--host", "client", "--label", "site=ber1"])
        .args([Path::new("--networks"), &networks])
        .args(["--format", "json", "--output"])
        .arg(&output)
        .stderr(File::create(&said).unwrap());
    let mut agent = Process::start(&mut command).unwrap();
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    exchange(&lab);
    let has_said = |what: &str| fs::read_to_string(&said).unwrap().contains(what);
    wait_until(PATIENCE, "the agent to miss its receiver", || {
        has_said("are not taken by")
    })
    .unwrap();

    let mut command = lab.client.command(collector.to_str().unwrap());
    command
        .arg("127.0.0.1:4318")
        .args(
            has_tls
                .then(|| ["server.pem", "server.key", "ca.pem"].map(file))
                .into_iter()
                .flatten(),
        )
        .stdout(File::create(&received).unwrap());
    let _collector = Process::start(&mut command).unwrap();
    wait_until(PATIENCE, "the agent to find its receiver", || {
        has_said("takes metrics again")
    })
    .unwrap();
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(
        agent.wait_with_deadline(PATIENCE).unwrap().success(),
        "{}",
        fs::read_to_string(&said).unwrap()
    );

    let request = records(&received).pop().unwrap();
    let resource = &request["resourceMetrics"][0];
    let attributes = resource["resource"]["attributes"].as_array().unwrap();
    for (key, value) in [("host.name", "client"), ("site", "ber1")] {
        let attribute = json!({"key": key, "value": {"stringValue": value}});
        assert!(attributes.contains(&attribute), "{attributes:?}");
    }
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let of = |name: &str| metrics.iter().find(|it| it["name"] == name).unwrap();
    let point = |metric: &Value| {
        let points = metric["dataPoints"].as_array().unwrap();
        let is_own = |it: &&Value| {
            let text = it["attributes"].to_string();
            text.contains(SERVICE) && text.contains("\"lab\"")
        };
        points.iter().find(is_own).unwrap().clone()
    };
    let told = told(&output);
    let bytes = point(&of("fathom_traffic_bytes_total")["sum"]);
    assert_eq!(bytes["asDouble"].as_f64(), Some(told.bytes));
    let rtt = point(&of("fathom_rtt_seconds")["exponentialHistogram"]);
    assert_eq!(rtt["count"], json!(told.samples.to_string()), "{rtt}");
    assert_eq!(rtt["scale"], 4);
    let buckets = rtt["positive"]["bucketCounts"].as_array().unwrap();
    let number = |it: &Value| it.as_str().unwrap().parse::<f64>().unwrap();
    let counted: f64 = buckets.iter().map(number).sum();
    assert!((counted - told.samples).abs() < 0.5, "{rtt}");
    // Most are in the bucket of the median, or in the one beside.
    let most = (0_i32..)
        .zip(buckets)
        .max_by(|one, other| number(one.1).total_cmp(&number(other.1)));
    let index = rtt["positive"]["offset"].as_i64().unwrap() + i64::from(most.unwrap().0);
    let begin = (index as f64 / 16.0).exp2();
    assert!(
        (begin / told.median - 1.0).abs() < 0.1,
        "{begin} for {}",
        told.median
    );
    let lost = &of("fathom_otlp_requests_lost_total")["sum"]["dataPoints"][0];
    assert!(lost["asDouble"].as_f64().unwrap() > 0.0, "{lost}");
}

#[test]
fn rules_for_alerts_do_what_they_say() {
    if installed("promtool").is_none() {
        return;
    }
    let folder = repository().join("packaging/prometheus");
    for arguments in [
        ["check", "rules", "fathom.rules.yml"],
        ["test", "rules", "fathom.rules.test.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        let done = promtool
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    // They ask for families that there are.
    let document = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let rules = fs::read_to_string(folder.join("fathom.rules.yml")).unwrap();
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = rules.split(|letter| !is_of_name(letter));
    let families: BTreeSet<_> = words
        .filter(|word| word.starts_with("fathom_"))
        .map(|word| {
            let stem = ["_bucket", "_count"]
                .iter()
                .find_map(|end| word.strip_suffix(end));
            stem.unwrap_or(word)
        })
        .collect();
    assert!(families.len() > 8, "{families:?}");
    for family in families {
        assert!(document.contains(&format!("| `{family}` |")), "{family}");
    }
}

//! What is answered to whom asks for lists and pictures.

use serde_json::Value;

use crate::server::Server;
use crate::store::{HOUR, SCRIPT, empty, flow, hour};

fn values<'a>(list: &'a Value, name: &str) -> Vec<&'a Value> {
    let columns = list["columns"].as_array().unwrap();
    let column = columns.iter().position(|it| it["name"] == name).unwrap();
    let rows = list["rows"].as_array().unwrap();
    rows.iter().map(|row| &row[column]).collect()
}

#[test]
fn lists_are_sorted_filtered_and_cut() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let list = |path: &str| server.get(&format!("/api/v1/lists/{path}&{HOUR}")).json();
    let flows = list("flows?limit=2");
    assert_eq!(flows["total"], 5);
    assert_eq!(values(&flows, "source"), ["10.0.5.1", "10.0.4.1"]);
    assert_eq!(values(&flows, "bytes")[0], 360 * 500_000);
    assert_eq!(values(&flows, "loss_ratio")[0], 0.005);
    let filtered = list("flows?filter=10.0.3.1:40003");
    assert_eq!(values(&filtered, "source"), ["10.0.3.1"]);
    let servers = list("servers?sort=responses");
    assert_eq!(values(&servers, "responses"), [&Value::from(36_000.0)]);
    let hops = list("hops?sort=loss_ratio");
    assert_eq!(values(&hops, "ttl")[0], 4);
    let names = list("dns?");
    assert_eq!(values(&names, "query_name"), [SCRIPT]);
}

#[test]
fn a_flow_is_whole_on_one_axis() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let id = flow(1).community_id().to_string().replace('+', "%2B");
    let told = server.get(&format!("/api/v1/flow?community_id={id}&{HOUR}"));
    let told = told.json();
    assert_eq!(told["flow"]["source"], "10.0.1.1");
    let points = told["series"].as_array().unwrap();
    assert_eq!(points.len(), 360);
    for name in ["bytes", "rtt_p50_ns", "client_rtt_p50_ns", "latency_p99_ns"] {
        assert!(points.iter().all(|point| point[name].is_number()), "{name}");
    }
    assert_eq!(told["hops"].as_array().unwrap().len(), 4);
    assert!(
        told["events"][0]["text"]
            .as_str()
            .unwrap()
            .contains("1 stalls")
    );
    let other = server.get(&format!("/api/v1/flow?community_id=1:none&{HOUR}"));
    assert_eq!(other.status, 404);
}

#[test]
fn an_explanation_has_parts_and_evidence() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let asked = |subject: &str| server.get(&format!("/api/v1/explain?{subject}&{HOUR}"));
    let told = asked("service=192.0.2.1:443").json();
    assert_eq!(told["flows"], 5);
    assert!(told["verdict"]["text"].is_string());
    let parts = told["parts"].as_array().unwrap();
    let shares = parts.iter().map(|part| part["share"].as_f64().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 0.01, "{parts:?}");
    for finding in told["findings"].as_array().unwrap() {
        let statement = finding["evidence"][0].as_str().unwrap();
        assert!(statement.starts_with("SELECT"), "{statement}");
    }
    assert_eq!(asked("service=192.0.2.99:443").status, 404);
    assert_eq!(asked("service=server").status, 400);
    assert_eq!(asked("host=gateway&service=:443").status, 400);
}

#[test]
fn a_heat_map_has_every_sample_once() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let samples = |path: &str| -> u64 {
        let heat = server.get(&format!("/api/v1/heat?{path}&{HOUR}")).json();
        let steps = heat["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 120);
        let counts = steps
            .iter()
            .flat_map(|step| step["counts"].as_array().unwrap());
        counts.map(|count| count.as_u64().unwrap()).sum()
    };
    // Two directions of five flows.
    assert_eq!(samples("measure=rtt"), 360 * 10 * 20);
    assert_eq!(samples("measure=latency"), 360 * 5 * 20);
    assert_eq!(
        samples("measure=rtt&destination=192.0.2.1&destination_port=443"),
        360 * 5 * 20
    );
}

#[test]
fn spreadsheets_get_no_formulas() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let csv = server.get(&format!("/api/v1/lists/connections?format=csv&{HOUR}"));
    assert!(csv.head.contains("content-type: text/csv"), "{}", csv.head);
    assert!(
        csv.head
            .contains("attachment; filename=\"connections.csv\"")
    );
    assert!(
        csv.body
            .contains(",\"'=HYPERLINK(\"\"http://evil.example\"\")\","),
        "{}",
        csv.body
    );
    assert_eq!(csv.body.lines().count(), 3);
}

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    for (path, status, words) in [
        ("lists/flows?limit=0", 400, "1 to 1000"),
        ("lists/flows?limit=99999999999999999999", 400, "limit"),
        ("lists/flows?sort=1;DROP", 400, "there is no column"),
        ("lists/flows?format=xml", 400, "xml"),
        ("lists/flows?from=yesterday", 400, "is no time"),
        ("lists/flows?from=9999-01-01T00:00:00Z", 400, "2116"),
        (
            "lists/flows?from=2025-01-02T00:00:00Z&to=2025-01-01T00:00:00Z",
            400,
            "before",
        ),
        ("lists/passwords?", 404, "passwords"),
        ("heat?measure=pain", 400, "pain"),
        ("heat?", 400, "measure"),
        (
            "shares?destination=10.0.0.1&destination_port=70000",
            400,
            "too large",
        ),
        ("flow?", 400, "community_id"),
    ] {
        let answer = server.get(&format!("/api/v1/{path}"));
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(words), "{path}: {error}");
    }
}

#[test]
fn an_empty_store_has_empty_answers() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    for list in [
        "flows",
        "hops",
        "servers",
        "connections",
        "dns",
        "hosts",
        "networks",
    ] {
        let answer = server.get(&format!("/api/v1/lists/{list}?filter=x")).json();
        assert_eq!(
            (&answer["total"], &answer["rows"]),
            (&0.into(), &serde_json::json!([]))
        );
    }
    let heat = server.get("/api/v1/heat?measure=rtt").json();
    assert_eq!(heat["steps"], serde_json::json!([]));
    let activity = server.get("/api/v1/activity?").json();
    assert_eq!(activity["steps"], serde_json::json!([]));
}

/// The store may be made later than the server: until then that is what is told.
#[test]
fn without_a_store_it_is_told_that_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("none"));
    let answer = server.get("/api/v1/lists/hosts");
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("cannot read"), "{}", answer.body);
}

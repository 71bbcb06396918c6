//! What a file may say, and how it is told what is wrong.

use super::*;

/// The example with its examples of tables.
fn whole_example() -> String {
    let uncommented = EXAMPLE.lines().map(|line| match line.strip_prefix("#: ") {
        Some(line) => line,
        None => line,
    });
    uncommented.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_equals_the_defaults() {
    assert_eq!(Config::parse(EXAMPLE).unwrap(), Config::default());
}

#[test]
fn the_examples_of_tables_equal_their_defaults() {
    let config = Config::parse(&whole_example()).unwrap();
    let server = &config.servers[0];
    assert_eq!(server.health, Health::default());
    assert_eq!(server.encapsulation, Encapsulation::Layer2);
    assert!((server.weight - 1.0).abs() < 1e-9);
    let least = r#"
        [[server]]
        name = "web1"
        address = "10.0.0.11"
        [[service]]
        name = "web"
        address = "192.0.2.10"
        port = 443
    "#;
    let least = Config::parse(least).unwrap();
    assert_eq!(least.servers[0], *server);
    assert_eq!(least.services[0].bounds, Bounds::default());
    let service = &config.services[0];
    let other = &least.services[0];
    assert_eq!(service.bounds, other.bounds);
    assert_eq!((service.ring, service.policy), (other.ring, other.policy));
    assert_eq!(
        (service.protocol, service.is_quic),
        (other.protocol, other.is_quic)
    );
}

#[test]
fn tables_take_over_from_the_defaults_above() {
    let config = Config::parse(
        r#"
        [health]
        check = "http"
        port = 8080
        path = "/alive"
        rise = 5
        [control]
        policy = "watermark"
        floor = 0.2
        [[server]]
        name = "one"
        address = "2001:db8::1"
        encapsulation = "gue"
        [server.health]
        path = "/ready"
        [[server]]
        name = "two"
        address = "10.0.0.2"
        weight = 2
        [[service]]
        name = "dns"
        address = "192.0.2.0/24"
        protocol = "udp"
        port = "all"
        servers = ["two"]
        [service.control]
        policy = "static"
        "#,
    )
    .unwrap();
    let path = |index: usize| match &config.servers[index].health.check {
        Check::Http(request) => request.path.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((path(0).as_str(), path(1).as_str()), ("/ready", "/alive"));
    assert_eq!(config.servers[0].health.rise, 5);
    assert_eq!(config.servers[0].encapsulation, Encapsulation::Gue(6080));
    let service = &config.services[0];
    assert_eq!(
        (service.port, service.servers.as_slice()),
        (None, [1].as_slice())
    );
    assert_eq!(service.policy, Policy::Static);
    assert!((service.bounds.floor - 0.2).abs() < 1e-9);
}

#[test]
fn services_are_checked_at_an_address_of_theirs() {
    let health = Health {
        port: Some(81),
        ..Health::default()
    };
    for (address, port, target) in [
        ("192.0.2.10", "80", Some("192.0.2.10:80")),
        ("192.0.2.0/24", "80", Some("192.0.2.1:80")),
        ("192.0.2.8/31", "80", Some("192.0.2.8:80")),
        ("2001:db8::/64", "80", Some("[2001:db8::1]:80")),
        ("2001:db8::8", "80", Some("[2001:db8::8]:80")),
        ("192.0.2.10", "\"all\"", None),
    ] {
        let config = Config::parse(&format!(
            "[health]\ncheck = \"none\"\n[[server]]\nname = \"a\"\naddress = \"10.0.0.1\"\n[[service]]\nname = \"s\"\naddress = \"{address}\"\nport = {port}\n"
        ));
        let service = &config.unwrap().services[0];
        let target: Option<SocketAddr> = target.map(|target| target.parse().unwrap());
        assert_eq!(service.check_target(&Health::default()), target);
        assert_eq!(service.check_target(&health).map(|it| it.port()), Some(81));
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let server = "[[server]]\nname = \"a\"\naddress = \"10.0.0.1\"\n";
    let service = "[[service]]\nname = \"s\"\naddress = \"192.0.2.1\"\n";
    let wrong = |text: &str| Config::parse(text).unwrap_err();
    for (text, told) in [
        ("pin = 1".to_owned(), "line 1"),
        (
            "\n[[server]]\nname = \"a\"\nadress = \"10.0.0.1\"".to_owned(),
            "line 4",
        ),
        (format!("{server}weigth = 2"), "unknown field `weigth`"),
        (
            format!("{server}{server}"),
            "line 4: there are two servers \"a\"",
        ),
        (
            format!(
                "{server}{}",
                server
                    .replace('a', "b")
                    .replace("bddress", "address")
                    .replace("nbme", "name")
            ),
            "the same address",
        ),
        (service.to_owned(), "has no server"),
        (
            format!("{server}{service}servers = [\"x\"]"),
            "line 7: service \"s\" names a server \"x\"",
        ),
        (format!("{server}{service}ring = 65536"), "is a prime"),
        (
            format!("{server}{service}port = 0"),
            "a port from 1 to 65535",
        ),
        (
            format!("{server}{service}quic = true"),
            "protocol = \"udp\"",
        ),
        (
            format!("{server}{service}[health]\nway = \"tunnel\""),
            "service \"s\" is for all ports",
        ),
        ("mark = 0xfa700001".to_owned(), "low 14 bits are 0"),
        ("mark = 0".to_owned(), "low 14 bits are 0"),
        (format!("{server}weight = 0"), "fathom balance drain a"),
        (format!("{server}gue-port = 1"), "leave one of them out"),
        ("epoch = \"5\"".to_owned(), "write it as"),
        ("measured = \"1/0\"".to_owned(), "as in \"1/8\""),
        ("epoch = \"11s\"".to_owned(), "100ms to 10s"),
        (
            format!("{server}{service}[service.control]\nfloor = 2"),
            "floor is from 0.001",
        ),
    ] {
        let error = wrong(&text);
        assert!(error.contains(told), "{text}\n{error}");
    }
}

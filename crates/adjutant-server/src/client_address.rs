//! The address of a client, which may be behind proxies.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::header::{FORWARDED, HeaderName};
use axum::http::{HeaderMap, HeaderValue};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The IP address of a connection's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// An address, or a network in CIDR notation, like `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "must be an IP address or a network, like 10.0.0.0/8 or ::1";
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| EXPECTED)?;
        let bits = bits(address).1;
        let prefix = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| EXPECTED))?;
        if prefix > bits { Err(EXPECTED) } else { Ok(Self { address, prefix }) }
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let ((own, length), (other, other_length)) =
            (bits(self.address), bits(address.to_canonical()));
        let ignored = length - self.prefix;
        // A shift by all 128 bits would overflow.
        let differ = (own ^ other).checked_shr(ignored).unwrap_or(0);
        length == other_length && differ == 0
    }
}

/// The bits of an address, and how many there are.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// Whether this is the address of a trusted proxy.
pub(crate) fn is_trusted(address: IpAddr, trusted: &[Network]) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

/// The client of a request: the peer of the connection, or, if that is a trusted proxy, the last
/// address in `X-Forwarded-For` that is not one. `Forwarded` is read if there is no
/// `X-Forwarded-For`. Addresses before it were written by clients, who may lie.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let mut client = peer;
    for address in forwarded_for(headers).into_iter().rev() {
        // What an untrusted address reports is not evidence, and an unreadable one ends the chain.
        let Some(address) = address.filter(|_| is_trusted(client, trusted)) else { break };
        client = address;
    }
    client.to_canonical()
}

/// The addresses that proxies report, the nearest last; `None` for one that cannot be read.
fn forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let elements = |name: HeaderName| {
        let lines = headers.get_all(name).into_iter().map(HeaderValue::to_str);
        let lines: Vec<&str> = lines.map(Result::unwrap_or_default).collect();
        lines.join(",")
    };
    if headers.contains_key(X_FORWARDED_FOR) {
        return elements(X_FORWARDED_FOR).split(',').map(parse_address).collect();
    }
    if !headers.contains_key(FORWARDED) {
        return Vec::new();
    }
    let for_of = |element: &str| {
        let named = element.split(';').filter_map(|pair| pair.split_once('='));
        let mut named = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
        named.next().and_then(|(_, value)| parse_address(value))
    };
    elements(FORWARDED).split(',').map(for_of).collect()
}

/// An address with or without a port, brackets and quotes.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    bare.parse().or_else(|_| with_port()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[(HeaderName, &str)]) -> String {
        let trusted = ["10.0.0.0/8", "127.0.0.1", "fd00::/8"].map(|text| text.parse().unwrap());
        let headers = lines
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect();
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn a_network_contains_its_addresses() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("0.0.0.0/0", "203.0.113.7", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::1", "::1", true),
            ("::1", "::2", false),
            ("10.1.2.3", "10.1.2.4", false),
        ] {
            let found = network.parse::<Network>().unwrap().contains(address.parse().unwrap());
            assert_eq!(found, expected, "{address} in {network}");
        }
        for wrong in ["", "proxy.example", "10.0.0.0/33", "10.0.0.0/", "::1/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_where_a_request_comes_from() {
        let xff = |value| [(X_FORWARDED_FOR, value)];
        assert_eq!(client("203.0.113.7", &xff("198.51.100.1")), "203.0.113.7");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &xff("198.51.100.1")), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &xff("192.0.2.9, 198.51.100.1, 10.0.0.2")), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &xff("10.0.0.3, 10.0.0.2")), "10.0.0.3");
        assert_eq!(client("10.0.0.1", &xff("198.51.100.1, unknown, 10.0.0.2")), "10.0.0.2");
        assert_eq!(client("::ffff:10.0.0.1", &xff("[2001:db8::1]:4711")), "2001:db8::1");
        let lines = [(X_FORWARDED_FOR, "192.0.2.9"), (X_FORWARDED_FOR, "198.51.100.1")];
        assert_eq!(client("127.0.0.1", &lines), "198.51.100.1", "lines are one list");
    }

    #[test]
    fn forwarded_is_read_without_x_forwarded_for() {
        let forwarded = |value| [(FORWARDED, value)];
        let value = r#"for=192.0.2.9;proto=http, FOR="[2001:db8::1]:80";by=10.0.0.2"#;
        assert_eq!(client("10.0.0.1", &forwarded(value)), "2001:db8::1");
        assert_eq!(client("10.0.0.1", &forwarded("for=_hidden")), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &forwarded("for=198.51.100.1:80")), "198.51.100.1");
        let both = [(FORWARDED, "for=192.0.2.9"), (X_FORWARDED_FOR, "198.51.100.1")];
        assert_eq!(client("10.0.0.1", &both), "198.51.100.1");
    }
}

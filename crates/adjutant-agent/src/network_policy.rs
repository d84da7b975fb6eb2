//! The addresses that URLs of models and clients may lead to. They must not reach the operator's
//! private network (server-side request forgery).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Url;

/// The addresses that may be connected to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    #[default]
    Public,
    Anywhere,
}

impl NetworkPolicy {
    pub fn of(allow_private: bool) -> Self {
        if allow_private { Self::Anywhere } else { Self::Public }
    }

    /// Checks a URL without resolving its host; the addresses of a host name are checked when it is
    /// connected to. The URL parser has normalized other notations of addresses (`0x7f.1`,
    /// `2130706433`).
    pub fn check(self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("Only http and https URLs can be fetched.".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("A URL must not have a user name or a password in it.".to_owned());
        }
        if url.port() == Some(0) {
            return Err("Port 0 is not a valid port.".to_owned());
        }
        let host = url.host_str().ok_or("The URL has no host.")?;
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        match address {
            Some(address) if self == Self::Public && !is_public(address) => {
                Err(NotPublic.to_string())
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The error of an address that [`NetworkPolicy::Public`] forbids.
#[derive(Debug, thiserror::Error)]
#[error("The host's address is not a public one.")]
pub struct NotPublic;

/// Whether an address is globally reachable, by IANA's registries of special-purpose addresses.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // This network, private, shared by carriers, loopback, link-local (metadata services),
        // private.
        [0 | 10 | 127, ..] | [100, 64..=127, ..] | [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..]
        // Protocol assignments, documentation, the old 6to4 relays, benchmarks.
        | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _]
        // Multicast, reserved, broadcast.
        | [224..=255, ..]
    )
}

/// Global unicast addresses, except for those that embed another address (Teredo, 6to4) and those
/// for documentation. Mapped and translated IPv4 (`::ffff:`, `64:ff9b::`), local and multicast
/// addresses are not global unicast.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let public =
            "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.0.1.1 198.17.0.1 198.20.0.1
            223.255.255.255 2606:4700::1111 2001:4860:4860::8888 2001:200::1 2620:fe::fe";
        for address in public.split_whitespace() {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let not = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254
            169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1
            198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1
            ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 2001::1 2001:2::1
            2001:10::1 2001:20::1 2001:1ff::1 2001:db8::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1
            fec0::1 ff02::1";
        for address in not.split_whitespace() {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_url_is_refused_for_what_it_says_however_it_is_spelt() {
        let check = |url: &str| NetworkPolicy::Public.check(&Url::parse(url).unwrap());
        let refused = "http://127.0.0.1/ http://127.1/ http://2130706433/ http://0x7f000001/ http://0x7f.1/
            http://0177.0.0.1/ http://017700000001/ http://127.0.0.1./ http://%31%32%37.0.0.1/ http://①②⑦.0.0.1/
            http://0/ http://[::1]/ http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/ http://[::]:80/
            http://[64:ff9b::169.254.169.254]/ http://169.254.169.254/latest/ https://10.0.0.1:8443/
            http://user@example.com/ http://:secret@example.com/ http://example.com:0/ ftp://example.com/
            file:///etc/passwd data:text/plain,x gopher://x/";
        for url in refused.split_whitespace() {
            assert!(check(url).is_err(), "{url}");
        }
        for url in [
            "http://example.com/",
            "https://example.com:8443/a?b#c",
            "http://1.1.1.1/",
            "http://localhost/",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        let here = Url::parse("http://127.0.0.1:9100/").unwrap();
        assert_eq!(NetworkPolicy::Anywhere.check(&here), Ok(()));
    }
}

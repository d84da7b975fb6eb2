//! A DNS resolver that returns only public addresses, so that no name leads into the private
//! network. The check is on the addresses that are connected to, not on an earlier lookup.

use std::net::SocketAddr;

use adjutant_agent::{NotPublic, is_public};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

pub(super) struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(only_public(found)?.into_iter()) as Addrs)
        })
    }
}

fn only_public(found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NotPublic> {
    let public: Vec<SocketAddr> = found.into_iter().filter(|found| is_public(found.ip())).collect();
    if public.is_empty() { Err(NotPublic) } else { Ok(public) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_returned() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let mixed = addresses(&["10.0.0.1:0", "1.1.1.1:0", "[::1]:0"]);
        assert_eq!(only_public(mixed).unwrap(), addresses(&["1.1.1.1:0"]));
        assert!(only_public(addresses(&["10.0.0.1:0", "[fe80::1]:0"])).is_err());
        assert!(only_public(Vec::new()).is_err());
    }
}

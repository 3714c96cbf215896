//! Where a request comes from: the other end of its connection, or who a trusted proxy says it is.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use axum::http::{Extensions, HeaderMap, HeaderValue};
use ipnet::IpNet;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Peer {
    /// The address of the client. What `x-forwarded-for` says counts only as far as proxies that
    /// are trusted have written it, from the end: anybody can send the rest.
    pub(crate) fn client(self, headers: &HeaderMap, proxies: &[IpNet]) -> IpAddr {
        let mut client = self.0.to_canonical();
        if !is_proxy(client, proxies) {
            return client;
        }
        let lists = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes);
        let names = lists.flat_map(|list| list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
        // Empty members of a list say nothing. Any other that is no address ends it: before that
        // are words of the client.
        let named: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
        for name in named.into_iter().rev() {
            let Some(address) = str::from_utf8(name).ok().and_then(address_of) else { break };
            client = address.to_canonical();
            if !is_proxy(client, proxies) {
                break;
            }
        }
        client
    }
}

/// The address that a proxy names: some add the port, of which `2001:db8::1:443` has none, and write
/// `[2001:db8::1]`.
fn address_of(name: &str) -> Option<IpAddr> {
    let bare = || name.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let plain = name.parse().ok();
    plain.or_else(|| name.parse().ok().map(|address: SocketAddr| address.ip())).or_else(bare)
}

fn is_proxy(address: IpAddr, proxies: &[IpNet]) -> bool {
    proxies.iter().any(|proxy| proxy.contains(&address))
}

/// The `x-request-id` of the answer, on its way to the handler.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Who makes a request, for the log: the name of the account, once it is known.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<OnceLock<String>>);

impl Asker {
    pub(crate) fn is(&self, account: &str) {
        // It is known once for each request.
        self.0.get_or_init(|| account.to_owned());
    }

    pub(crate) fn account(&self) -> &str {
        self.0.get().map_or("-", String::as_str)
    }
}

/// Where a request comes from, and its identifier, for the audit log.
pub(crate) fn origin(
    proxies: &[IpNet],
    headers: &HeaderMap,
    extensions: &Extensions,
) -> (Option<String>, String) {
    let peer = extensions.get::<Peer>().map(|peer| peer.client(headers, proxies).to_string());
    (peer, extensions.get().map(|RequestId(id)| id.clone()).unwrap_or_default())
}

/// The part of an address that one client has: a whole one of IPv4, half of one of IPv6, of which
/// anybody has 2⁶⁴.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let forwarded: Vec<&[u8]> = forwarded.iter().map(|list| list.as_bytes()).collect();
        client_of_bytes(peer, &forwarded)
    }

    fn client_of_bytes(peer: &str, forwarded: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for list in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(list).unwrap());
        }
        let proxies = ["127.0.0.0/8", "10.0.0.0/8"].map(|proxy| proxy.parse().unwrap());
        Peer(peer.parse().unwrap()).client(&headers, &proxies).to_string()
    }

    #[test]
    fn a_client_is_who_the_last_trusted_proxy_saw() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1", "it is no proxy");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(
            client("127.0.0.1", &["1.1.1.1, 198.51.100.7"]),
            "198.51.100.7",
            "the first was sent by the client"
        );
        assert_eq!(client("127.0.0.1", &["1.1.1.1", "198.51.100.7, 10.1.2.3"]), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &["198.51.100.7, unknown"]), "127.0.0.1");
        assert_eq!(client("::ffff:127.0.0.1", &["2001:db8::1"]), "2001:db8::1");
    }

    #[test]
    fn what_a_client_sends_ahead_does_not_hide_what_the_proxy_has_added() {
        let seen = |forwarded: &[&[u8]]| client_of_bytes("127.0.0.1", forwarded);
        assert_eq!(seen(&[b"\xe9, 198.51.100.8"]), "198.51.100.8");
        assert_eq!(seen(&[b"6.6.6.6", b"\xe9, 198.51.100.8"]), "198.51.100.8");
        assert_eq!(seen(&[b"6.6.6.6, \xe9, 10.1.2.3"]), "10.1.2.3", "what is before is unknown");
        assert_eq!(seen(&[b"6.6.6.6", b"198.51.100.9, ", b" , "]), "198.51.100.9");
    }

    #[test]
    fn a_client_is_known_by_its_address_whichever_port_a_proxy_adds() {
        for (named, address) in [
            ("198.51.100.7:49152", "198.51.100.7"),
            ("[2001:db8::1]:49152", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1:443", "2001:db8::1:443"),
            ("1.1.1.1, 198.51.100.7:1, 10.1.2.3:65535", "198.51.100.7"),
        ] {
            assert_eq!(client("127.0.0.1", &[named]), address);
        }
        for nobody in ["198.51.100.7:", "198.51.100.7:http", "[198.51.100.7]", "[2001:db8::1", ":1"]
        {
            assert_eq!(client("127.0.0.1", &[nobody]), "127.0.0.1");
        }
    }

    #[test]
    fn a_client_has_half_of_an_address_of_ipv6() {
        let network = |address: &str| network(address.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}

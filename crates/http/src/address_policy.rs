//! Which addresses may be asked, before anything is sent.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use deputize_core::setting_names::SettingNames;
use url::{Host, Url};

use crate::public_address::{AddressKind, address_kind};

/// Names by which clouds give a machine its credentials. Whatever they resolve to, they are
/// refused.
const METADATA_NAMES: [&str; 6] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
];

/// Ports from 1024 on of services that are no web servers, and that do harm when they are asked.
const SERVICE_PORTS: [u16; 30] = [
    1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 4444, 5060, 5432, 5671, 5672, 5900, 5984,
    5985, 6000, 6379, 6443, 6666, 6667, 8500, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
];

/// Why an address may not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlDenial {
    /// It is no address.
    #[error(
        "`{url}` is not an address ({problem}): write it whole, such as https://example.org/page"
    )]
    Invalid {
        /// Text that is no URL.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// It is of another scheme than http and https.
    #[error("only http and https addresses can be fetched, not `{scheme}:`")]
    Scheme {
        /// Scheme of the URL.
        scheme: String,
    },
    /// It has a user name or a password.
    #[error("the address has a user name or a password in it: leave it out")]
    Credentials,
    /// Its port is that of a service which is no web server.
    #[error("port {port} of {host} is not one of web servers")]
    Port {
        /// Name of the host.
        host: String,
        /// Number of the port.
        port: u16,
    },
    /// Its host has an address that is not public.
    #[error("{host} resolves to a private address ({address})")]
    Private {
        /// Name of the host.
        host: String,
        /// IP address of the host.
        address: IpAddr,
    },
    /// It is a service that gives machines their credentials.
    #[error("{host} is the metadata service of a cloud, which is never fetched")]
    Metadata {
        /// Name of the host.
        host: String,
    },
    /// A value in it is a secret of this program.
    #[error("the address has {name} in it, a secret that is not sent anywhere")]
    Secret {
        /// What stands for the secret.
        name: String,
    },
    /// A redirect leads to something that is no address.
    #[error("the redirect leads to something that is no address")]
    Redirect,
    /// A redirect leads from https to http.
    #[error(
        "the redirect to {url} goes from https to http: fetch that address itself if it is meant"
    )]
    Downgrade {
        /// Where it leads.
        url: String,
    },
}

/// Why a host has no address that may be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// It may not be asked.
    #[error(transparent)]
    Denied(#[from] UrlDenial),
    /// Its name is unknown.
    #[error("{host} cannot be resolved: {problem}")]
    Unknown {
        /// Name of the host.
        host: String,
        /// What the system says.
        problem: String,
    },
}

impl UrlDenial {
    /// Returns whether allowing the host would lift this.
    const fn is_liftable(&self) -> bool {
        matches!(self, Self::Port { .. } | Self::Private { .. })
    }

    /// Returns the denial, with the host's name of a setting that would lift it.
    #[must_use]
    pub fn with_remedy(&self, names: &SettingNames) -> String {
        match names.name("allow_hosts") {
            name if !name.is_empty() && self.is_liftable() => {
                format!("{self}. The user can allow it in {name}.")
            }
            _ => self.to_string(),
        }
    }
}

/// A host that may have private addresses and any port, or only one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    host: String,
    port: Option<u16>,
}

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a host, or a host with a port: write it like `docs.internal` or `localhost:8080`, \
     each host by itself"
)]
pub struct AllowedHostError(String);

impl FromStr for AllowedHost {
    type Err = AllowedHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = || AllowedHostError(text.to_owned());
        let url = Url::parse(&format!("http://{text}")).map_err(|_| fault())?;
        let is_host = url.path() == "/" && !text.ends_with('/') && url.query().is_none();
        if !is_host || url.fragment().is_some() || has_credentials(&url) {
            return Err(fault());
        }
        // A pattern is a host for the parser, and no host for anybody else.
        let host = host_of(&url).filter(|host| !host.contains('*')).ok_or_else(fault)?;
        // The parser drops the port that http has anyway.
        let port = if text.ends_with(":80") { Some(80) } else { url.port() };
        Ok(Self { host, port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// Decides which addresses may be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    allowed: Vec<AllowedHost>,
}

impl AddressPolicy {
    /// Creates a policy that allows public addresses, and these hosts.
    #[must_use]
    pub fn new(allowed: Vec<AllowedHost>) -> Self {
        Self { allowed }
    }

    /// Creates a policy for one address that the person chose: its host may be private and its port any.
    #[must_use]
    pub fn of_person(url: &Url) -> Self {
        let host = host_of(url).unwrap_or_default();
        Self { allowed: vec![AllowedHost { host, port: url.port_or_known_default() }] }
    }

    /// Reads an address and checks everything but what its name resolves to.
    ///
    /// # Errors
    /// If it is no address, or may not be asked.
    pub fn parse(&self, text: &str) -> Result<Url, UrlDenial> {
        let url = Url::parse(text).map_err(|error| UrlDenial::Invalid {
            url: deputize_core::sanitize::for_terminal_line(text, 200),
            problem: error.to_string(),
        })?;
        self.check(&url)?;
        Ok(url)
    }

    /// Checks an address, without what its name resolves to.
    ///
    /// # Errors
    /// If it may not be asked.
    pub fn check(&self, url: &Url) -> Result<(), UrlDenial> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlDenial::Scheme { scheme: url.scheme().to_owned() });
        }
        if has_credentials(url) {
            return Err(UrlDenial::Credentials);
        }
        let host = host_of(url).unwrap_or_default();
        if METADATA_NAMES.contains(&host.as_str()) {
            return Err(UrlDenial::Metadata { host });
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let is_web = matches!(port, 80 | 443 | 1024..) && !SERVICE_PORTS.contains(&port);
        if !is_web && !self.names_port(&host, port) {
            return Err(UrlDenial::Port { host, port });
        }
        match address_of(url) {
            Some(address) => self.check_address(&host, port, address),
            None => Ok(()),
        }
    }

    /// Checks the addresses that the name of a host resolves to: all must be allowed.
    ///
    /// # Errors
    /// If one of them may not be asked.
    pub fn check_resolved(&self, url: &Url, resolved: &[SocketAddr]) -> Result<(), UrlDenial> {
        let host = host_of(url).unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        resolved.iter().try_for_each(|address| self.check_address(&host, port, address.ip()))
    }

    /// Returns the addresses that the name of a host resolves to, after checking the whole address
    /// and each of them. Whoever connects to nothing else reaches only what was checked.
    ///
    /// # Errors
    /// If the name is unknown, or it may not be asked.
    pub async fn resolve(&self, url: &Url) -> Result<Vec<SocketAddr>, ResolveError> {
        self.check(url)?;
        let port = url.port_or_known_default().unwrap_or_default();
        if let Some(address) = address_of(url) {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let host = host_of(url).unwrap_or_default();
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        self.check_answers(url, found.map(Iterator::collect))
    }

    /// Returns the addresses that a host was found to have, if all of them may be asked.
    fn check_answers(
        &self,
        url: &Url,
        found: io::Result<Vec<SocketAddr>>,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let problem = match found {
            Ok(found) if !found.is_empty() => {
                self.check_resolved(url, &found)?;
                return Ok(found);
            }
            Ok(_) => "it has no address".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(ResolveError::Unknown { host: host_of(url).unwrap_or_default(), problem })
    }

    fn check_address(&self, host: &str, port: u16, address: IpAddr) -> Result<(), UrlDenial> {
        let host_name = host.to_owned();
        match address_kind(address) {
            AddressKind::Public => Ok(()),
            AddressKind::Private if self.allows(host, port) => Ok(()),
            AddressKind::Private => Err(UrlDenial::Private { host: host_name, address }),
            AddressKind::Metadata => Err(UrlDenial::Metadata { host: host_name }),
        }
    }

    fn allows(&self, host: &str, port: u16) -> bool {
        let is_meant =
            |it: &AllowedHost| it.host == host && it.port.is_none_or(|named| named == port);
        self.allowed.iter().any(is_meant)
    }

    fn names_port(&self, host: &str, port: u16) -> bool {
        self.allowed.iter().any(|it| it.host == host && it.port == Some(port))
    }
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns the host of an address, in one spelling.
#[must_use]
pub fn host_of(url: &Url) -> Option<String> {
    Some(match url.host()? {
        Host::Domain(name) => name.trim_end_matches('.').to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => format!("[{address}]"),
    })
}

/// The IP address that an address names instead of a host.
pub(crate) fn address_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allowed: &str) -> AddressPolicy {
        AddressPolicy::new(allowed.split_whitespace().map(|host| host.parse().unwrap()).collect())
    }

    fn judged(policy: &AddressPolicy, url: &str) -> String {
        policy.parse(url).map_or_else(|denied| denied.to_string(), |url| format!("ok {url}"))
    }

    #[test]
    fn every_row_of_the_corpus_is_judged_as_it_says() {
        let rows = include_str!("../tests/urls.txt").lines();
        let rows = rows.filter(|line| !line.is_empty() && !line.starts_with("# "));
        let mut count = 0;
        for row in rows {
            let (wanted, url) = row.split_once(' ').unwrap();
            let found = AddressPolicy::default().parse(url).map_or("deny", |_| "allow");
            assert_eq!(found, wanted, "{url}");
            count += 1;
        }
        println!("{count} addresses");
        assert!(count > 100, "{count}");
    }

    #[test]
    fn a_refusal_says_what_and_which() {
        let rows = [
            "ftp://example.org/",
            "https://me:pass@example.org/",
            "http://example.org:22/",
            "http://example.org:6379/",
            "http://2130706433/",
            "http://[::ffff:10.1.2.3]/",
            "http://169.254.169.254/latest",
            "http://metadata.google.internal./",
            "example.org",
        ];
        let shown = rows.map(|row| judged(&policy(""), row)).join("\n");
        insta::assert_snapshot!(shown, @r"
        only http and https addresses can be fetched, not `ftp:`
        the address has a user name or a password in it: leave it out
        port 22 of example.org is not one of web servers
        port 6379 of example.org is not one of web servers
        127.0.0.1 resolves to a private address (127.0.0.1)
        [::ffff:10.1.2.3] resolves to a private address (::ffff:10.1.2.3)
        169.254.169.254 is the metadata service of a cloud, which is never fetched
        metadata.google.internal is the metadata service of a cloud, which is never fetched
        `example.org` is not an address (relative URL without a base): write it whole, such as https://example.org/page
        ");
    }

    #[test]
    fn allowed_hosts_may_be_private_but_never_metadata() {
        let policy =
            policy("docs.internal localhost:8080 10.1.2.3 [::1]:9000 169.254.169.254 box:22");
        let resolved = |url: &str, address: &str| {
            let address = SocketAddr::new(address.parse().unwrap(), 0);
            policy.check_resolved(&Url::parse(url).unwrap(), &[address]).is_ok()
        };
        assert!(resolved("https://docs.internal/", "10.0.0.1"));
        assert!(resolved("https://DOCS.internal./", "10.0.0.1"));
        assert!(!resolved("https://docs.internal/", "169.254.169.254"));
        assert!(!resolved("https://a.docs.internal/", "10.0.0.1"));
        assert!(resolved("http://localhost:8080/", "127.0.0.1"));
        assert!(!resolved("http://localhost:8081/", "127.0.0.1"));
        assert!(judged(&policy, "http://10.1.2.3/x").starts_with("ok"));
        assert!(judged(&policy, "http://0xa010203/x").starts_with("ok"));
        assert!(!judged(&policy, "http://10.1.2.4/x").starts_with("ok"));
        assert!(judged(&policy, "http://[::1]:9000/").starts_with("ok"));
        assert!(!judged(&policy, "http://[::1]:9001/").starts_with("ok"));
        assert!(!judged(&policy, "http://169.254.169.254/").starts_with("ok"));
        assert!(judged(&policy, "http://box:22/").starts_with("ok"));
        assert!(!judged(&policy, "http://docs.internal:22/").starts_with("ok"));
    }

    #[test]
    fn one_private_answer_of_several_is_enough_to_refuse_a_name() {
        let url = Url::parse("https://mixed.example/").unwrap();
        let public = "93.184.215.14:443".parse::<SocketAddr>().unwrap();
        let private = "[fd12::1]:443".parse::<SocketAddr>().unwrap();
        let policy = policy("");
        let answered = |found: &[SocketAddr]| policy.check_answers(&url, Ok(found.to_vec()));
        assert_eq!(answered(&[public, public]), Ok(vec![public, public]));
        for found in [[public, private], [private, public]] {
            let denial = answered(&found).unwrap_err().to_string();
            assert_eq!(denial, "mixed.example resolves to a private address (fd12::1)");
        }
        assert_eq!(
            answered(&[]).unwrap_err().to_string(),
            "mixed.example cannot be resolved: it has no address"
        );
    }

    #[test]
    fn hosts_are_read_or_refused() {
        let read = |text: &str| {
            text.parse::<AllowedHost>().map_or_else(|fault| fault.to_string(), |it| it.to_string())
        };
        for text in ["docs.internal", "localhost:8080", "a:80", "10.0.0.1", "[::1]:9000"] {
            assert_eq!(read(text), text);
        }
        for text in
            ["", "http://a", "a/b", "a/", "a?b", "me@a", "a:b", "a b", "*", "*.a", "127.0.0.*:80"]
        {
            assert!(read(text).contains("is not a host"), "{text}");
        }
    }
}

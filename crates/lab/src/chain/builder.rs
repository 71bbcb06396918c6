//! The description of a chain, and how it is built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::plan::{Detour, MAXIMUM_BRANCH_ROUTERS, MAXIMUM_BRANCHES, MAXIMUM_ROUTERS, Place};
use super::{Branch, Chain, wiring};
use crate::{Error, Layer, Link, LinkConfig, LinkEnd, Namespace, Result, ScriptedRouter};

/// Describes a [`Chain`].
#[derive(Debug, Clone)]
pub struct ChainBuilder {
    routers: usize,
    links: Vec<LinkConfig>,
    plain: BTreeSet<usize>,
    scripts: BTreeMap<usize, ScriptedRouter>,
    branches: Vec<(usize, Vec<LinkConfig>)>,
    layer: Layer,
    captures: Option<PathBuf>,
    /// The first mistake of the description, told when the chain is built.
    mistake: Option<String>,
}

impl ChainBuilder {
    pub(super) fn new(routers: usize) -> Self {
        let mut builder = Self {
            routers,
            links: vec![LinkConfig::default(); routers + 1],
            plain: BTreeSet::new(),
            scripts: BTreeMap::new(),
            branches: Vec::new(),
            layer: Layer::default(),
            captures: None,
            mistake: None,
        };
        builder.demand((1..=MAXIMUM_ROUTERS).contains(&routers), || {
            format!("{routers} routers, not 1 to {MAXIMUM_ROUTERS}")
        });
        builder
    }

    /// Configures link `number`, from 1, which is the client's.
    #[must_use]
    pub fn link(mut self, number: usize, config: LinkConfig) -> Self {
        match number.checked_sub(1).and_then(|it| self.links.get_mut(it)) {
            Some(link) => *link = config,
            None => self.demand(false, || format!("there is no link {number}")),
        }
        self
    }

    /// Makes link `number` a veth pair instead of an emulated link: as fast as the kernel, with its
    /// offloads, queueing disciplines and native XDP, but without effects and truth.
    #[must_use]
    pub fn plain(mut self, number: usize) -> Self {
        self.demand((1..=self.links.len()).contains(&number), || {
            format!("there is no link {number}")
        });
        self.plain.insert(number);
        self
    }

    /// Adds a way past `router`, over one router fewer than `links`, of which there are one to
    /// three; router 1 and the last have none.
    #[must_use]
    pub fn branch(mut self, router: usize, links: impl IntoIterator<Item = LinkConfig>) -> Self {
        let links: Vec<_> = links.into_iter().collect();
        self.demand((2..self.routers).contains(&router), || {
            format!("router {router} has not a router on both sides")
        });
        self.demand(
            (1..=MAXIMUM_BRANCH_ROUTERS + 1).contains(&links.len()),
            || format!("a branch of {} links", links.len()),
        );
        self.demand(self.branches.len() < MAXIMUM_BRANCHES, || {
            format!("more than {MAXIMUM_BRANCHES} branches")
        });
        self.branches.push((router, links));
        self
    }

    /// Makes `router` a scripted one. No branch begins or ends at it, though one may lead past it,
    /// and none is behind one that translates.
    #[must_use]
    pub fn scripted(mut self, router: usize, script: ScriptedRouter) -> Self {
        self.demand((1..=self.routers).contains(&router), || {
            format!("there is no router {router}")
        });
        self.scripts.insert(router, script);
        self
    }

    /// What the emulated links carry; with Ethernet the neighbours know each other from the start,
    /// so that no ARP passes.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layer = layer;
        self
    }

    /// Captures what passes each end of the emulated links in `directory`, in files like
    /// `client-eth0.pcap`, `router1-link1.pcap` and `branch1-link2-1.pcap` (`branch1b-…` for a
    /// second router).
    #[must_use]
    pub fn captures(mut self, directory: &Path) -> Self {
        self.captures = Some(directory.to_owned());
        self
    }

    /// Creates namespaces, links, addresses and routes; the traffic takes the main way.
    ///
    /// # Errors
    /// [`Error::Arrangement`] when the description makes no chain, else as [`Namespace::new`] and
    /// [`LinkBuilder::start`](crate::LinkBuilder::start).
    pub fn build(self) -> Result<Chain> {
        self.check()?;
        let mut chain = Chain {
            client: wiring::host("client")?,
            routers: (1..=self.routers)
                .map(|number| self.router(number))
                .collect::<Result<_>>()?,
            server: wiring::host("server")?,
            branches: Vec::new(),
            scripts: Vec::new(),
            links: Vec::new(),
        };
        for (number, config) in (1..).zip(&self.links) {
            let place = Place::main(number);
            let nodes = [number - 1, number];
            let ends = nodes.map(|node| self.main_end(&chain, node, place));
            let are_scripted = nodes.map(|node| self.scripts.contains_key(&node));
            chain.links.push(if self.plain.contains(&number) {
                wiring::connect(&ends, are_scripted == [false; 2])?;
                None
            } else {
                Some(self.start(&ends, config)?)
            });
            wiring::name(place, &ends, are_scripted, self.layer_of(number))?;
        }
        for (number, (router, links)) in (1..).zip(&self.branches) {
            let detour = Detour {
                router: *router,
                branch: number,
                routers: links.len() - 1,
            };
            let branch = self.build_branch(&chain, detour, links)?;
            chain.branches.push(branch);
        }
        for (number, script) in &self.scripts {
            let namespace = chain.router(*number)?;
            let layers = [self.layer_of(*number), self.layer_of(number + 1)];
            let script = wiring::start_script(*number, namespace, script, layers)?;
            chain.scripts.push(script);
        }
        chain.set_routes()?;
        Ok(chain)
    }

    /// What can be said only of the whole description.
    fn check(&self) -> Result<()> {
        let mut mistake = self.mistake.clone();
        for (router, _) in &self.branches {
            let turning = [router - 1, router + 1];
            if turning.iter().any(|it| self.scripts.contains_key(it)) {
                mistake.get_or_insert_with(|| {
                    format!("a branch past router {router} begins or ends at a scripted one")
                });
            }
            let mut before = self.scripts.range(..router);
            if before.any(|(_, script)| script.translation.is_some()) {
                mistake.get_or_insert_with(|| {
                    format!("a branch past router {router} is behind a translation")
                });
            }
        }
        mistake.map_or(Ok(()), |what| Err(Error::Arrangement { what }))
    }

    fn router(&self, number: usize) -> Result<Namespace> {
        let name = format!("router{number}");
        if self.scripts.contains_key(&number) {
            wiring::bystander(&name)
        } else {
            wiring::router(&name)
        }
    }

    fn layer_of(&self, link: usize) -> Layer {
        if self.plain.contains(&link) {
            Layer::Ethernet
        } else {
            self.layer
        }
    }

    fn build_branch(&self, chain: &Chain, detour: Detour, links: &[LinkConfig]) -> Result<Branch> {
        let names = ["", "b"].map(|suffix| format!("branch{}{suffix}", detour.branch));
        let routers = names[..detour.routers]
            .iter()
            .map(|name| wiring::router(name))
            .collect::<Result<Vec<_>>>()?;
        let mut nodes = vec![chain.router(detour.router - 1)?];
        nodes.extend(&routers);
        nodes.push(chain.router(detour.router + 1)?);
        let started = detour
            .links()
            .zip(nodes.windows(2))
            .zip(links)
            .map(|((place, pair), config)| {
                let end = |namespace| self.end(namespace, &place.interface());
                let ends = [end(pair[0]), end(pair[1])];
                let link = self.start(&ends, config)?;
                wiring::name(place, &ends, [false; 2], self.layer)?;
                Ok(link)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Branch {
            routers,
            links: started,
            detour,
        })
    }

    /// The end of the link at `place` in the client (node 0), a router or the server.
    fn main_end(&self, chain: &Chain, node: usize, place: Place) -> LinkEnd {
        match node {
            0 => self.end(&chain.client, Chain::HOST_INTERFACE),
            number => match chain.routers.get(number - 1) {
                Some(router) => self.end(router, &place.interface()),
                None => self.end(&chain.server, Chain::HOST_INTERFACE),
            },
        }
    }

    fn end(&self, namespace: &Namespace, interface: &str) -> LinkEnd {
        let file = format!("{}-{interface}.pcap", namespace.name());
        LinkEnd {
            capture: self.captures.as_ref().map(|path| path.join(file)),
            ..LinkEnd::new(namespace, interface)
        }
    }

    fn start(&self, ends: &[LinkEnd; 2], config: &LinkConfig) -> Result<Link> {
        let [near, far] = ends.clone();
        Link::builder(near, far, config.clone())
            .layer(self.layer)
            .start()
    }

    /// Notes `what` is wrong unless the description `is_right`.
    fn demand(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right {
            self.mistake.get_or_insert_with(what);
        }
    }
}

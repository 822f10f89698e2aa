//! What a walk passed over, to be told with its results.

/// How many entries were passed over for one reason, and the first few of them in the order of their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// All.
    pub(crate) count: usize,
    /// The first few.
    pub(crate) first: Vec<Vec<u8>>,
}

impl Sample {
    const SHOWN: usize = 3;

    /// One more.
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.count += 1;
        self.keep(path);
    }

    /// Those of another thread.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        other.first.iter().for_each(|path| self.keep(path));
    }

    fn keep(&mut self, path: &[u8]) {
        let at = self.first.partition_point(|known| known.as_slice() < path);
        if at < Self::SHOWN {
            self.first.insert(at, path.to_vec());
            self.first.truncate(Self::SHOWN);
        }
    }
}

/// What a walk passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Hidden by ignore rules.
    pub(crate) ignored: Sample,
    /// Symbolic links.
    pub(crate) links: Sample,
    /// Pipes, sockets, devices.
    pub(crate) special: Sample,
    /// Directories that could not be read.
    pub(crate) unreadable: Sample,
    /// Directories below the deepest level.
    pub(crate) deep: Sample,
    /// Ignore files whose rules do not all count.
    pub(crate) short: Sample,
}

impl Passed {
    /// Those of another thread.
    pub(super) fn merge(&mut self, other: Self) {
        self.ignored.merge(other.ignored);
        self.links.merge(other.links);
        self.special.merge(other.special);
        self.unreadable.merge(other.unreadable);
        self.deep.merge(other.deep);
        self.short.merge(other.short);
    }
}

//! The element tree that a browser with scripting builds for a document, reduced to the parts that
//! loading needs: elements, attributes and text.
//!
//! Invariant: nodes are indices into one list and every walk is iterative, so deep nesting cannot
//! overflow the stack. The rest of a document beyond the limits on elements, depth or bytes of
//! attributes is dropped and counted in [`DomTree::limits`]. Comments and doctypes are not kept.

use crate::limits::{LimitCounts, PageLimit, PageLimits};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{
    Attribute, ExpandedName, ParseOpts, QualName, expanded_name, local_name, ns, parse_document,
};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes per call of the parser. The limits are checked between calls.
const FEED_BYTES: usize = 16 * 1024;

/// Bytes per call of the parser when only the head is parsed. The pieces are small because
/// misnested elements in one piece can multiply before the limits are checked.
const HEAD_FEED_BYTES: usize = 64;

/// Bytes of one attribute beside its name and value.
const ATTRIBUTE_BYTES: usize = 48;

/// Attributes of one element; the following ones are dropped, because each look-up compares all.
const ATTRIBUTES_MAX: usize = 1_000;

/// Limits when only the head is parsed; no template's head comes near them.
const HEAD_LIMITS: PageLimits = PageLimits { elements_max: 2_048, depth_max: 64, ..PageLimits::DEFAULT };

/// Index of a node in its [`DomTree`].
pub(crate) type NodeIndex = usize;

/// Index of the document node, the parent of the root element.
pub(crate) const DOCUMENT: NodeIndex = 0;

/// An element, or the document node, which has no name.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomNode {
    /// Local name in lower case; empty for the document and for the contents of a `template`.
    pub(crate) name: String,
    /// Attribute names without prefix and their values, in source order.
    pub(crate) attributes: Vec<(String, String)>,
    /// Position among the children of the parent.
    pub(crate) index: usize,
    /// The parent node; `None` for the document and for nodes outside the document.
    pub(crate) parent: Option<NodeIndex>,
    /// Child elements in order.
    pub(crate) children: Vec<NodeIndex>,
    /// The text directly in it, joined without the elements between.
    pub(crate) text: String,
}

/// A parsed document.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomTree {
    nodes: Vec<DomNode>,
    /// Steps left for applying styles; see [`DomTree::allow`].
    budget: Cell<u64>,
    /// The limit at which parsing stopped, if any.
    pub(crate) limits: LimitCounts,
}

impl DomNode {
    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Whether the attribute is present, even if empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// The words of an attribute whose value is a list separated by white space.
    pub(crate) fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.attribute(name).unwrap_or_default().split_ascii_whitespace()
    }

    /// Whether the attribute has this value, ignoring ASCII case and surrounding white space.
    pub(crate) fn says(&self, name: &str, value: &str) -> bool {
        self.attribute(name).is_some_and(|found| found.trim_ascii().eq_ignore_ascii_case(value))
    }
}

impl DomTree {
    /// Parses a whole document. Bytes that are not UTF-8 are replaced.
    pub(crate) fn parse(content: &[u8], limits: &PageLimits) -> Self {
        Self::parse_pieces(content.chunks(FEED_BYTES), limits, false)
    }

    /// Parses a document up to the piece in which its body begins, under `HEAD_LIMITS`.
    pub(crate) fn parse_head(content: &[u8]) -> Self {
        Self::parse_pieces(content.chunks(HEAD_FEED_BYTES), &HEAD_LIMITS, true)
    }

    fn parse_pieces<'c>(
        pieces: impl Iterator<Item = &'c [u8]>,
        limits: &PageLimits,
        head_only: bool,
    ) -> Self {
        let options = ParseOpts {
            tree_builder: TreeBuilderOpts { scripting_enabled: true, ..TreeBuilderOpts::default() },
            ..ParseOpts::default()
        };
        let overflow = Rc::new(Cell::new(None));
        let body_begun = Rc::new(Cell::new(false));
        let builder = Builder::new(limits, Rc::clone(&overflow), Rc::clone(&body_begun));
        let mut parser = parse_document(builder, options).from_utf8();
        for piece in pieces {
            parser.process(piece.into());
            if overflow.get().is_some() || head_only && body_begun.get() {
                break;
            }
        }
        let mut nodes = parser.finish();
        number_siblings(&mut nodes);
        let mut counts = LimitCounts::default();
        if let Some(limit) = overflow.get() {
            counts.add(limit);
        }
        Self { nodes, budget: Cell::new(u64::MAX), limits: counts }
    }

    /// Sets the budget of steps for applying styles.
    pub(crate) fn allow(&self, steps: u64) {
        self.budget.set(steps);
    }

    /// Takes `steps` from the budget. Returns `false` when the budget was too small; it is then
    /// empty.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let left = self.budget.get().checked_sub(steps);
        self.budget.set(left.unwrap_or_default());
        left.is_some()
    }

    /// Steps left in the budget.
    pub(crate) fn steps_left(&self) -> u64 {
        self.budget.get()
    }

    /// The node at `place`, or an empty node if there is none.
    pub(crate) fn node(&self, place: NodeIndex) -> &DomNode {
        static NOTHING: DomNode = DomNode {
            name: String::new(),
            attributes: Vec::new(),
            index: 0,
            parent: None,
            children: Vec::new(),
            text: String::new(),
        };
        self.nodes.get(place).unwrap_or(&NOTHING)
    }

    /// The indices of all elements in the document, in tree order.
    pub(crate) fn in_order(&self) -> Vec<NodeIndex> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut waiting: Vec<NodeIndex> = self.node(DOCUMENT).children.iter().rev().copied().collect();
        while let Some(place) = waiting.pop() {
            order.push(place);
            waiting.extend(self.node(place).children.iter().rev());
        }
        order
    }
}

/// Gives each node its position among its siblings, so that a walk over siblings needs no search.
fn number_siblings(nodes: &mut [DomNode]) {
    for place in 0..nodes.len() {
        let children =
            nodes.get_mut(place).map(|node| std::mem::take(&mut node.children)).unwrap_or_default();
        for (index, &child) in children.iter().enumerate() {
            if let Some(child) = nodes.get_mut(child) {
                child.index = index;
            }
        }
        if let Some(node) = nodes.get_mut(place) {
            node.children = children;
        }
    }
}

/// The parser's reference to a node. It holds the name because `elem_name` lends it to the parser.
#[derive(Clone, Debug)]
struct NodeHandle {
    place: NodeIndex,
    name: Rc<QualName>,
}

/// Builds the nodes as the parser demands.
struct Builder {
    nodes: RefCell<Vec<DomNode>>,
    depths: RefCell<Vec<u32>>,
    elements_max: usize,
    depth_max: u32,
    /// Bytes of attributes that may still be stored. The parser repeats the attributes of
    /// formatting elements, so that they may be longer than the document.
    attribute_bytes: Cell<usize>,
    /// The limit that was exceeded last; shared with the loop that feeds the parser.
    overflow: Rc<Cell<Option<PageLimit>>>,
    /// Set when a `body` or `frameset` element has been created.
    body_begun: Rc<Cell<bool>>,
    nameless: Rc<QualName>,
}

impl Builder {
    fn new(limits: &PageLimits, overflow: Rc<Cell<Option<PageLimit>>>, body_begun: Rc<Cell<bool>>) -> Self {
        Self {
            nodes: RefCell::new(vec![DomNode::default()]),
            depths: RefCell::new(vec![0]),
            elements_max: limits.elements_max,
            depth_max: limits.depth_max,
            attribute_bytes: Cell::new(limits.decoded_bytes_max),
            overflow,
            body_begun,
            nameless: Rc::new(QualName::new(None, ns!(), local_name!(""))),
        }
    }

    fn add(&self, name: Rc<QualName>, attributes: Vec<Attribute>) -> NodeHandle {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.len() > self.elements_max {
            self.overflow.set(Some(PageLimit::Elements));
        }
        if matches!(name.expanded(), expanded_name!(html "body") | expanded_name!(html "frameset")) {
            self.body_begun.set(true);
        }
        let place = nodes.len();
        let mut node = DomNode { name: name.local.to_ascii_lowercase().to_string(), ..DomNode::default() };
        attributes.into_iter().for_each(|attribute| self.add_attribute(&mut node, attribute));
        nodes.push(node);
        self.depths.borrow_mut().push(0);
        NodeHandle { place, name }
    }

    /// Stores an attribute unless the element has it. Drops it if a limit is reached.
    fn add_attribute(&self, node: &mut DomNode, attribute: Attribute) {
        let bytes = ATTRIBUTE_BYTES + attribute.name.local.len() + attribute.value.len();
        let is_full = node.attributes.len() >= ATTRIBUTES_MAX;
        let left = if is_full { None } else { self.attribute_bytes.get().checked_sub(bytes) };
        let Some(left) = left else {
            self.overflow.set(Some(PageLimit::Decoded));
            return;
        };
        let name = attribute.name.local.to_string();
        if !node.has(&name) {
            self.attribute_bytes.set(left);
            node.attributes.push((name, attribute.value.to_string()));
        }
    }

    /// Puts an element or text into `parent`. An element is inserted before the child `before` if
    /// given.
    fn put(&self, parent: NodeIndex, before: Option<NodeIndex>, child: NodeOrText<NodeHandle>) {
        let child = match child {
            NodeOrText::AppendText(text) => {
                if let Some(node) = self.nodes.borrow_mut().get_mut(parent) {
                    node.text.push_str(&text);
                }
                return;
            }
            NodeOrText::AppendNode(child) => child.place,
        };
        self.detach(child);
        let mut nodes = self.nodes.borrow_mut();
        if let Some(node) = nodes.get_mut(child) {
            node.parent = Some(parent);
        }
        if let Some(node) = nodes.get_mut(parent) {
            let at = before.and_then(|before| node.children.iter().rposition(|&other| other == before));
            node.children.insert(at.unwrap_or(node.children.len()), child);
        }
        let mut depths = self.depths.borrow_mut();
        let depth = depths.get(parent).copied().unwrap_or_default() + 1;
        if depth > self.depth_max {
            self.overflow.set(Some(PageLimit::Depth));
        }
        if let Some(slot) = depths.get_mut(child) {
            *slot = depth;
        }
    }

    fn detach(&self, child: NodeIndex) {
        let mut nodes = self.nodes.borrow_mut();
        let parent = nodes.get_mut(child).and_then(|node| node.parent.take());
        if let Some(parent) = parent.and_then(|parent| nodes.get_mut(parent)) {
            // The parser mostly moves recently appended elements, so the search starts at the end.
            if let Some(at) = parent.children.iter().rposition(|&other| other == child) {
                parent.children.remove(at);
            }
        }
    }

    fn parent(&self, place: NodeIndex) -> Option<NodeIndex> {
        self.nodes.borrow().get(place).and_then(|node| node.parent)
    }
}

impl TreeSink for Builder {
    type Handle = NodeHandle;
    type Output = Vec<DomNode>;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Vec<DomNode> {
        self.nodes.into_inner()
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeHandle {
        NodeHandle { place: DOCUMENT, name: Rc::clone(&self.nameless) }
    }

    fn elem_name<'a>(&'a self, target: &'a NodeHandle) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _: ElementFlags) -> NodeHandle {
        self.add(Rc::new(name), attributes)
    }

    fn create_comment(&self, _: StrTendril) -> NodeHandle {
        // Comments are not kept. This index does not exist, and `is_comment` recognises it.
        NodeHandle { place: usize::MAX, name: Rc::clone(&self.nameless) }
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> NodeHandle {
        self.create_comment(StrTendril::new())
    }

    fn append(&self, parent: &NodeHandle, child: NodeOrText<NodeHandle>) {
        if !is_comment(&child) {
            self.put(parent.place, None, child);
        }
    }

    fn append_based_on_parent_node(
        &self,
        element: &NodeHandle,
        previous: &NodeHandle,
        child: NodeOrText<NodeHandle>,
    ) {
        if self.parent(element.place).is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, _: &NodeHandle) -> NodeHandle {
        // Contents of a template are not part of the document, so they go to a node without a
        // parent.
        self.add(Rc::clone(&self.nameless), Vec::new())
    }

    fn same_node(&self, one: &NodeHandle, other: &NodeHandle) -> bool {
        one.place == other.place
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &NodeHandle, child: NodeOrText<NodeHandle>) {
        if let (false, Some(parent)) = (is_comment(&child), self.parent(sibling.place)) {
            self.put(parent, Some(sibling.place), child);
        }
    }

    fn add_attrs_if_missing(&self, target: &NodeHandle, attributes: Vec<Attribute>) {
        if let Some(node) = self.nodes.borrow_mut().get_mut(target.place) {
            attributes.into_iter().for_each(|attribute| self.add_attribute(node, attribute));
        }
    }

    fn remove_from_parent(&self, target: &NodeHandle) {
        self.detach(target.place);
    }

    fn reparent_children(&self, node: &NodeHandle, new_parent: &NodeHandle) {
        let children =
            self.nodes.borrow_mut().get_mut(node.place).map(|node| std::mem::take(&mut node.children));
        for child in children.unwrap_or_default() {
            let name = Rc::clone(&self.nameless);
            self.put(new_parent.place, None, NodeOrText::AppendNode(NodeHandle { place: child, name }));
        }
    }
}

fn is_comment(child: &NodeOrText<NodeHandle>) -> bool {
    matches!(child, NodeOrText::AppendNode(handle) if handle.place == usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::DomTree;
    use crate::limits::{PageLimit, PageLimits};

    fn names(tree: &DomTree) -> Vec<&str> {
        tree.in_order().into_iter().map(|place| tree.node(place).name.as_str()).collect()
    }

    fn parse(html: &str) -> DomTree {
        DomTree::parse(html.as_bytes(), &PageLimits::DEFAULT)
    }

    #[test]
    fn omitted_tags_are_inserted() {
        let tree = parse("<p>a<p class=x>b<img src=c>");
        assert_eq!(names(&tree), ["html", "head", "body", "p", "p", "img"]);
        let place = tree.in_order()[4];
        assert_eq!((tree.node(place).text.as_str(), tree.node(place).attribute("class")), ("b", Some("x")));
    }

    #[test]
    fn noscript_and_template_contents_are_not_elements() {
        let tree =
            parse("<body><noscript><img src=a></noscript><template><img src=b></template><!-- <img> -->");
        assert_eq!(names(&tree), ["html", "head", "body", "noscript", "template"]);
    }

    #[test]
    fn misplaced_table_content_is_moved_before_the_table() {
        let tree = parse("<table><div>x</div><tr><td>y</table>");
        assert_eq!(names(&tree), ["html", "head", "body", "div", "table", "tbody", "tr", "td"]);
    }

    #[test]
    fn parsing_stops_at_the_depth_and_element_limits() {
        let deep = "<div>".repeat(100_000);
        let tree = parse(&deep);
        assert_eq!(tree.limits.of(PageLimit::Depth), 1);
        assert!(tree.nodes.len() < 10_000);
        let many = "<br>".repeat(300_000);
        let limits = PageLimits { elements_max: 1_000, ..PageLimits::DEFAULT };
        let tree = DomTree::parse(many.as_bytes(), &limits);
        assert_eq!(tree.limits.of(PageLimit::Elements), 1);
        assert!(tree.nodes.len() < 10_000);
    }

    #[test]
    fn head_parsing_stops_at_the_body_and_stays_small() {
        let page = format!("<head><title>x</title></head><body>{}", "<br>".repeat(4_000));
        let tree = DomTree::parse_head(page.as_bytes());
        assert!(tree.nodes.len() < 50, "{}", tree.nodes.len());
        // The parser reopens all these formatting elements in each paragraph.
        let formatting: String = (0..).map(|count| format!("<b a={count}>")).take(1_000).collect();
        let page = format!("<head><template><p>{formatting}</p>{}", "<p>x".repeat(2_000));
        let tree = DomTree::parse_head(page.as_bytes());
        assert_eq!(tree.limits.total(), 1);
        assert!(tree.nodes.len() < 50_000, "{}", tree.nodes.len());
    }

    #[test]
    fn repeated_attributes_stop_at_the_byte_limit() {
        // The parser repeats `b` with its attribute in each of the paragraphs.
        let page = format!("<p><b title=\"{}\">{}", "x".repeat(64 * 1024), "<p>x".repeat(5_000));
        let tree = parse(&page);
        assert_eq!(tree.limits.of(PageLimit::Decoded), 1);
        let bytes: usize =
            tree.nodes.iter().flat_map(|node| &node.attributes).map(|(_, value)| value.len()).sum();
        assert!(bytes <= PageLimits::DEFAULT.decoded_bytes_max, "{bytes}");
        let many: String = (0..3_000).map(|number| format!("<body a{number}>")).collect();
        let tree = parse(&many);
        assert_eq!(tree.limits.of(PageLimit::Decoded), 1);
        assert!(tree.nodes.iter().all(|node| node.attributes.len() <= 1_000));
    }

    #[test]
    fn children_know_their_positions() {
        let tree = parse("<p>a<p>b<table><div>x</div><tr><td>y</table>");
        for place in tree.in_order() {
            let parent = tree.node(place).parent.unwrap();
            assert_eq!(tree.node(parent).children[tree.node(place).index], place);
        }
    }

    #[test]
    fn misnested_formatting_stops_at_the_limits() {
        let tree = parse(&"<a><b><i>".repeat(2_000));
        assert!(tree.limits.total() <= 1);
    }
}

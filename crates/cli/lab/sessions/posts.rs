//! A post in the block editor: written, published, corrected, moved to trash, restored and
//! published again.

use crate::session_browser::{SessionBrowser, own, url};

/// Selector of the title in the block editor.
const TITLE: &str = ".wp-block-post-title";
/// The block editor is loaded, its welcome guide is closed, and WordPress has stored that choice.
/// The editor loads its preferences late and then loses an earlier choice, so each check makes the
/// choice again.
const READY: &str = "(async () => {
    const greeting = ['core/edit-post', 'welcomeGuide'];
    if (!window.wp?.data?.select('core/preferences') || !document.querySelector('.wp-block-post-title')) return false;
    if (wp.data.select('core/preferences').get(...greeting) !== false)
        wp.data.dispatch('core/preferences').set(...greeting, false);
    if (document.querySelector('.components-guide')) return false;
    const me = await wp.apiFetch({path: '/wp/v2/users/me?context=edit'});
    return me.meta.persisted_preferences?.['core/edit-post']?.welcomeGuide === false;
})()";
/// Records the status in WordPress' response to the next DELETE, which `wp.apiFetch` sends as POST.
const NOTE: &str = "wp.apiFetch.use((options, next) => next(options).then(answer => {
    if (options.method === 'DELETE') window.status = answer.status;
    return answer;
}))";
/// The editor shows the list of posts once the post is in the trash.
const TRASHED: &str = "location.pathname === '/wp-admin/edit.php'";

impl SessionBrowser {
    /// Takes a post through all steps. Returns its final path.
    pub(crate) fn write_edit_trash_and_restore(&mut self) -> String {
        let [title, words, correction] = ["A harbour", "Words about ships", "A better harbour"].map(own);
        self.public_misses("/", &title);
        let number = self.draft(&title, &words);
        self.public_misses(&format!("/?p={number}"), &words);
        let place = self.publish();
        self.public_sees("/", &title);
        self.public_sees(&place, &words);

        self.edit(number);
        self.browser.type_into(&self.editor, TITLE, &correction);
        self.update();
        self.editor_sees(&place, &correction);
        self.public_sees(&place, &correction);
        self.public_sees("/", &correction);

        self.trash(number);
        self.public_misses("/", &correction);
        self.public_misses(&place, &words);
        self.restore(number);
        self.public_misses(&place, &words);
        self.edit(number);
        let place = self.publish();
        self.public_sees("/", &correction);
        self.public_sees(&place, &words);
        place
    }

    /// Opens the block editor at a page of wp-admin.
    pub(crate) fn begin(&mut self, target: &str) {
        self.open(target);
        self.browser.until(&self.editor, "the block editor is ready", READY);
    }

    /// Opens a post in the block editor.
    fn edit(&mut self, number: u64) {
        self.begin(&format!("/wp-admin/post.php?post={number}&action=edit"));
    }

    /// Writes a post and saves it as a draft. Returns its number.
    pub(crate) fn draft(&mut self, title: &str, words: &str) -> u64 {
        self.begin("/wp-admin/post-new.php");
        self.browser.type_into(&self.editor, TITLE, title);
        self.browser.focus(&self.editor, ".block-editor-default-block-appender__content");
        self.browser.type_into(&self.editor, "p.wp-block-paragraph", words);
        self.browser.press(&self.editor, ".editor-post-save-draft");
        let saved = "!!document.querySelector('.editor-post-saved-state.is-saved')";
        self.browser.until(&self.editor, "the draft is saved", saved);
        let number = self.browser.evaluate(&self.editor, "wp.data.select('core/editor').getCurrentPostId()");
        number.as_u64().unwrap()
    }

    /// Publishes the post in the editor. Returns its path and query.
    pub(crate) fn publish(&mut self) -> String {
        self.browser.press(&self.editor, ".editor-post-publish-panel__toggle");
        self.browser.press(&self.editor, ".editor-post-publish-panel .editor-post-publish-button");
        let link = "document.querySelector('.post-publish-panel__postpublish-header a')";
        self.browser.until(&self.editor, "the post is published", &format!("!!{link}"));
        let place = self.browser.evaluate(&self.editor, &format!("{link}.pathname + {link}.search"));
        place.as_str().unwrap().to_owned()
    }

    /// Saves the published post in the editor.
    pub(crate) fn update(&mut self) {
        self.browser.press(&self.editor, ".editor-post-publish-button");
        let updated = "!!document.querySelector('.components-snackbar')";
        self.browser.until(&self.editor, "the post is updated", updated);
    }

    /// Presses the block editor's button "Move to trash".
    fn trash(&mut self, number: u64) {
        self.edit(number);
        self.browser.evaluate(&self.editor, &format!("{NOTE}, null"));
        self.browser.press(&self.editor, ".editor-post-trash");
        let answered = format!("{TRASHED} || window.status !== ''");
        self.browser.until(&self.editor, "WordPress answers to \"Move to trash\"", &answered);
        let status = self.browser.evaluate(&self.editor, &format!("{TRASHED} ? 'trash' : window.status"));
        assert_eq!(status, "trash", "\"Move to trash\" left post {number} with the status {status}");
        self.browser.until(&self.editor, "the editor goes to the list of posts", TRASHED);
    }

    /// Presses "Restore" in the list of posts in the trash.
    fn restore(&mut self, number: u64) {
        self.browser.open(&self.editor, &url("/wp-admin/edit.php?post_type=post&post_status=trash"));
        let restore = format!("document.querySelector('#post-{number} .untrash a').click()");
        self.browser.follow(&self.editor, &restore);
        let notice =
            self.browser.evaluate(&self.editor, "document.querySelector('#message')?.innerText ?? ''");
        assert!(notice.as_str().unwrap().contains("restored from the Trash"), "{notice}");
    }
}

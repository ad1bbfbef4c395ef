//! Forms that visitors send: a comment held for approval, and the password of a post.

use crate::session_browser::{SessionBrowser, own, url};
use serde_json::json;

/// Selector of the password field of a post.
const PASSWORD: &str = "form.post-password-form input[name=post_password]";

impl SessionBrowser {
    /// The visitor comments and the editor approves the comment.
    pub(crate) fn comment_and_approve(&mut self, post: &str) {
        let said = own("I came by ferry");
        self.open("/wp-admin/options-discussion.php");
        let moderate = "document.querySelector('#comment_moderation').checked = true";
        self.browser.evaluate(&self.editor, moderate);
        self.browser.follow(&self.editor, "document.querySelector('#submit').click()");

        self.browser.open(&self.visitor, &url(post));
        self.browser.type_into(&self.visitor, "#author", "Cora Ferryman");
        self.browser.type_into(&self.visitor, "#email", "cora@visitors.test");
        self.browser.type_into(&self.visitor, "#comment", &said);
        let keep = "document.querySelector('#wp-comment-cookies-consent').checked = true";
        self.browser.evaluate(&self.visitor, keep);
        self.browser.follow(&self.visitor, "document.querySelector('#commentform #submit').click()");
        // The first page is reached by the link with the comment's hash, the second one with the
        // visitor's cookies alone.
        let landed = self.browser.markup(&self.visitor);
        let again = self.page(&self.visitor.clone(), post);
        for page in [landed, again] {
            assert!(page.contains(&said), "the visitor does not see the own comment: {page}");
            assert!(page.contains("awaiting moderation"), "the comment is not held: {page}");
        }
        let page = self.page(&self.stranger.clone(), post);
        assert!(!page.contains(&said), "a stranger sees a held comment: {page}");
        assert!(!page.contains("Cora Ferryman"), "a stranger sees the visitor's name: {page}");

        self.open("/wp-admin/edit-comments.php?comment_status=moderated");
        let row = format!(
            "[...document.querySelectorAll('#the-comment-list tr')].find(row => row.innerText.includes({}))",
            json!(said)
        );
        self.browser.until(&self.editor, "the comment is listed", &format!("!!{row}"));
        self.browser.evaluate(&self.editor, &format!("{row}.querySelector('.approve a').click()"));
        self.browser.until(&self.editor, "the approval is answered", "jQuery.active === 0");
        self.public_sees(post, &said);
        self.public_misses(post, "awaiting moderation");
        let page = self.page(&self.stranger.clone(), post);
        assert!(!page.contains("cora@visitors.test"), "a stranger sees the visitor's address: {page}");
    }

    /// The editor protects a post with a password. The visitor enters it; the stranger does not
    /// know it.
    pub(crate) fn protect_by_password(&mut self) {
        let [title, words] = ["Behind a door", "What only some may read"].map(own);
        self.draft(&title, &words);
        self.browser
            .evaluate(&self.editor, "wp.data.dispatch('core/editor').editPost({password: 'sesame'}), null");
        let place = self.publish();
        self.public_sees(&place, "post-password-form");
        self.public_misses(&place, &words);
        self.public_misses("/", &words);

        self.browser.open(&self.visitor, &url(&place));
        self.browser.type_into(&self.visitor, PASSWORD, "sesame");
        let send = "document.querySelector('form.post-password-form input[type=submit]').click()";
        self.browser.follow(&self.visitor, send);
        let landed = self.browser.markup(&self.visitor);
        let again = self.page(&self.visitor.clone(), &place);
        for page in [landed, again] {
            assert!(page.contains(&words), "the password was entered, but the post is not shown: {page}");
        }
        let page = self.page(&self.stranger.clone(), &place);
        assert!(!page.contains(&words), "a stranger reads a post behind a password: {page}");
        assert!(page.contains("post-password-form"), "a stranger is not asked for the password: {page}");
    }
}

// A user logs in at an OpenID Connect provider, in a browser, and logs out.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";
import Provider from "oidc-provider";

// freePort returns a port that nothing listens on.
const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

// provide serves a provider where everybody may log in by a name; only ann is of the group ops.
async function provide(callback, after) {
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "pawl", client_secret: "of the tests", redirect_uris: [callback], post_logout_redirect_uris: [after],
    }],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false,
    cookies: { keys: ["of the tests"] },
    features: { devInteractions: { enabled: true } },
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: id === "ann" ? ["ops"] : ["guests"] }),
    }),
  });
  const server = provider.listen(port, "127.0.0.1");
  return { issuer, stop: () => { server.closeAllConnections(); server.close(); } };
}

// serve starts pawl serve, whose users log in at a provider.
async function serve(dir) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const idp = await provide(`${url}/ui/oidc/callback`, `${url}/ui/`);
  writeFileSync(join(dir, "pawl.yaml"), JSON.stringify({
    db: `sqlite:${join(dir, "pawl.db")}`,
    serve: {
      addr: `127.0.0.1:${port}`, auth: "required", groups: ["ops=operator,reader@*"],
      oidc: {
        issuer: idp.issuer, client_id: "pawl", client_secret: "of the tests",
        redirect_url: `${url}/ui/oidc/callback`, after_logout_url: `${url}/ui/`,
      },
    },
  }));
  const server = spawn(process.env.PAWL_BINARY, ["serve", "--log", "warn"], {
    cwd: dir, stdio: ["ignore", "inherit", "inherit"], env: { PATH: process.env.PATH }, // its settings are in the file alone
  });
  const ended = new Promise(resolve => server.once("exit", resolve));
  await expect(async () => expect((await fetch(`${url}/ui/login`)).status).toBe(200)).toPass({ timeout: 30_000 });
  return { url, stop: async () => { server.kill("SIGTERM"); await ended; idp.stop(); } };
}

const loginAtProvider = /^Log in at /;

test("log in at a provider, and log out", async ({ browser }) => {
  const dir = mkdtempSync(join(tmpdir(), "pawl-signin-"));
  const { url, stop } = await serve(dir);
  try {
    const login = async (context, name) => {
      const page = await context.newPage();
      await page.goto(`${url}/ui/queues`);
      await page.getByRole("link", { name: loginAtProvider }).click();
      await page.locator("input[name=login]").fill(name);
      await page.locator("input[name=password]").fill("anything");
      await page.locator("button[type=submit]").click();
      await page.locator("button[type=submit]").click(); // consent
      return page;
    };
    const ann = await browser.newContext();
    const page = await login(ann, "ann");
    await expect(page).toHaveURL(`${url}/ui/queues`); // where she wanted to go
    await expect(page.locator("form[action='/ui/logout'] span")).toHaveText("ann");
    const cookies = await ann.cookies(`${url}/ui/`);
    expect(cookies.length).toBeGreaterThan(0);
    for (const cookie of cookies) expect(cookie).toMatchObject({ httpOnly: true });

    // the address of the callback is of one login only
    const used = await ann.request.get(`${url}/ui/oidc/callback?code=x&state=y`, { maxRedirects: 0 });
    expect(used.status()).toBeGreaterThanOrEqual(400);
    await page.goto(`${url}/ui/queues`);
    await expect(page.locator("form[action='/ui/logout'] span")).toHaveText("ann");

    const bob = await login(await browser.newContext(), "bob"); // of no group that has a role
    await expect(bob.locator("body")).toContainText(/no role|group/i);
    await bob.goto(`${url}/ui/queues`);
    await expect(bob.getByRole("link", { name: loginAtProvider })).toBeVisible();

    await page.getByRole("button", { name: "Log out" }).click();
    await page.locator("button[name=logout]").click(); // the provider asks
    await expect(page.getByRole("link", { name: loginAtProvider })).toBeVisible();
    await page.goBack();
    await page.goto(`${url}/ui/queues`);
    await expect(page.getByRole("link", { name: loginAtProvider })).toBeVisible();
  } finally {
    await stop();
    rmSync(dir, { recursive: true, force: true });
  }
});

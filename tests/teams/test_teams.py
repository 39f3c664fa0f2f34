"""/teams and /teams/{team_slug}"""


def test_a_team_is_created_by_anybody_who_then_owns_it(api, alice, events):
    api().post("/teams", name="Acme", slug="acme").fails(401, "not_authenticated")
    with events("team-created"):
        team = api(alice).post("/teams", name="Acme", slug="acme").gives(201)
    assert team["caller_role"] == "owner"
    api(alice).post("/teams", name="Other", slug="acme").fails(409, "slug_taken")
    assert api(alice).get("/teams").gives()["results"] == [team]

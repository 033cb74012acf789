"""The cluster's names and addresses."""

import ipaddress

from infra.devcluster.layout import MAX_NODES, SERVICES, SUBNET, Layout


def test_every_machine_has_an_address_of_its_own_on_the_bridge() -> None:
    layout = Layout(MAX_NODES)
    addresses = [layout.host_address, *(machine.address for machine in layout.machines)]
    assert len(set(addresses)) == MAX_NODES + 2
    assert all(ipaddress.ip_address(address) in SUBNET for address in addresses)


def test_no_range_of_addresses_overlaps_another() -> None:
    ranges = [SUBNET, SERVICES, *(ipaddress.ip_network(node.pods) for node in Layout(MAX_NODES).nodes)]
    assert not [(a, b) for a in ranges for b in ranges if a is not b and a.overlaps(b)]


def test_a_cable_fits_the_kernels_fifteen_characters() -> None:
    assert max(len(machine.link) for machine in Layout(MAX_NODES).machines) <= 15


def test_nodes_keep_name_and_address_when_their_number_changes() -> None:
    assert Layout(3).nodes[:2] == Layout(2).nodes
